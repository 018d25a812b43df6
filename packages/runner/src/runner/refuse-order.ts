/** Checks that refuse an order before a process is started. An order is never run in another class instead. */
import { BackplaneError } from "@backplane/contract";
import type { RunOrder } from "@backplane/ports";
import type { Dialect } from "../ports/dialect.ts";
import type { Confinement } from "../sandbox/confinement.ts";

/** Null if the order may run. `unsupported` is the objection of its dialect. */
export function refuseOrder(
  order: Pick<RunOrder, "binding_id" | "package" | "class" | "grant">,
  unsupported: string | null,
  dialect: Dialect | null,
  confinement: Confinement,
): BackplaneError | null {
  const { protocol } = order.package.runtime;
  const untrustedError = checkTrust(order);
  if (untrustedError !== null) return untrustedError;
  if (order.class === "inline") {
    return new BackplaneError(
      "class.unsupported",
      `A ${protocol} plugin runs in a process and cannot run inline.`,
    );
  }
  if (dialect?.remote !== true) {
    const { refusal, sandbox } = confinement.of(order);
    if (refusal !== null) return refusal;
    if (order.grant.secret_env !== undefined && sandbox === null) {
      return new BackplaneError(
        "sandbox.unavailable",
        "Its secrets are passed as environment variables, which other programs of the same user could read outside of the sandbox.",
        { fix: "Enable the sandbox, or remove policy.secret_env from the binding." },
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
function checkTrust(order: Pick<RunOrder, "binding_id" | "class" | "package">): BackplaneError | null {
  const { package_id, runtime } = order.package;
  if (runtime.protocol !== "module.instrument" || order.class !== "isolated") return null;
  const isolation = runtime.instrument?.isolation ?? "InProcess";
  return new BackplaneError(
    "plugin.untrusted",
    `${package_id} wants to run in the gateway's own process (${isolation}), and no operator has trusted it. Run it as External, in a process of its own, with \`backplane binding set ${order.binding_id} --class worker\`; or, if you trust its code with everything, with --class inline.`,
  );
}
