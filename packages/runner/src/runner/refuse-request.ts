/** Checks that refuse a request before a process is started. A request is never run in another class instead. */
import { BackplaneError } from "@backplane/contract";
import type { ProcessRequest, RunRequest } from "@backplane/ports";
import type { Dialect } from "../ports/dialect.ts";
import type { Confinement } from "../sandbox/confinement.ts";
import { configuredSlots } from "../secrets/configured-secrets.ts";

/** Returns null if the request may run. `unsupported` is the reason why its dialect cannot run it, if any. */
export function refuseRequest(
  request: Pick<RunRequest, "binding_id" | "package" | "class" | "grant"> & Pick<ProcessRequest, "context">,
  unsupported: string | null,
  dialect: Dialect | null,
  confinement: Confinement,
): BackplaneError | null {
  const { protocol } = request.package.runtime;
  const trust_error = checkTrust(request);
  if (trust_error !== null) return trust_error;
  if (request.class === "inline") {
    return new BackplaneError(
      "class.unsupported",
      `A ${protocol} plugin runs in a process and cannot run inline.`,
    );
  }
  if (dialect?.remote !== true) {
    const { refusal, sandbox } = confinement.boundaryFor(request);
    if (refusal !== null) return refusal;
    const secrets = request.grant.secret_env !== undefined || configuredSlots(request).length > 0;
    if (secrets && sandbox === null) {
      return new BackplaneError(
        "sandbox.unavailable",
        "The plugin's secrets are passed as environment variables or arguments, which other programs of the same user could read outside the sandbox.",
        {
          fix: "Enable the sandbox, or remove policy.secret_env and the secrets in config from the binding.",
        },
      );
    }
  }
  if (dialect === null) {
    return new BackplaneError("launch_failed", `This build of Backplane does not support ${protocol}.`);
  }
  return unsupported === null ? null : new BackplaneError("launch_failed", unsupported);
}

/**
 * Isolated is the default class, so no operator has trusted the module yet. With class worker it runs as External,
 * in a process.
 */
function checkTrust(request: Pick<RunRequest, "binding_id" | "class" | "package">): BackplaneError | null {
  const { package_id, runtime } = request.package;
  if (runtime.protocol !== "module.instrument" || request.class !== "isolated") return null;
  const isolation = runtime.instrument?.isolation ?? "InProcess";
  return new BackplaneError(
    "plugin.untrusted",
    `${package_id} is built to run in the gateway's own process (${isolation}), and no operator has trusted it. Run it as External, in its own process, with \`backplane binding set ${request.binding_id} --class worker\`; or, if you trust its code with everything, with --class inline.`,
  );
}
