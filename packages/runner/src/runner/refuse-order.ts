/** Why an order does not run at all, asked before a process is thought of. Never another class instead: a refusal. */
import { BackplaneError } from "@backplane/contract";
import type { RunOrder } from "@backplane/ports";
import type { Dialect } from "../ports/dialect.ts";
import type { Confinement } from "../sandbox/confinement.ts";

/** Null: it may run. `unfit` is what its dialect says against it. */
export function refuseOrder(
  order: Pick<RunOrder, "binding_id" | "package" | "class" | "grant">,
  unfit: string | null,
  dialect: Dialect | null,
  confinement: Confinement,
): BackplaneError | null {
  const { protocol } = order.package.runtime;
  const distrust = untrusted(order);
  if (distrust !== null) return distrust;
  if (order.class === "inline") {
    return new BackplaneError(
      "class.unsupported",
      `A ${protocol} plugin is a process; it cannot run inline.`,
    );
  }
  if (dialect?.remote !== true) {
    const { refusal, sandbox } = confinement.of(order);
    if (refusal !== null) return refusal;
    if (order.grant.secret_env !== undefined && sandbox === null) {
      return new BackplaneError(
        "sandbox.unavailable",
        "Its secrets go by environment, which everybody on this machine who runs as the same user could read outside the sandbox.",
        { fix: "Switch the sandbox on, or take policy.secret_env from the binding." },
      );
    }
  }
  if (dialect === null) {
    return new BackplaneError("launch_failed", `This build of Backplane cannot speak ${protocol} yet.`);
  }
  return unfit === null ? null : new BackplaneError("launch_failed", unfit);
}

/** Isolated is the class of a binding that nobody has looked at; with worker it is External, in a process. */
function untrusted(order: Pick<RunOrder, "binding_id" | "class" | "package">): BackplaneError | null {
  const { package_id, runtime } = order.package;
  if (runtime.protocol !== "module.instrument" || order.class !== "isolated") return null;
  const isolation = runtime.instrument?.isolation ?? "InProcess";
  return new BackplaneError(
    "plugin.untrusted",
    `${package_id} wants to run in the gateway's own process (${isolation}), and no operator has trusted it. Run it as External, in a process of its own, with \`backplane binding set ${order.binding_id} --class worker\`; or, if you trust its code with everything, with --class inline.`,
  );
}
