/** Why an order does not run at all, asked before a process is thought of. Never another class instead: a refusal. */
import { BackplaneError } from "@backplane/contract";
import type { RunOrder } from "@backplane/kernel/ports";
import type { Dialect } from "./dialects/dialect.ts";
import { untrusted } from "./instruments/trust.ts";
import type { Confinement } from "./sandbox/confinement.ts";

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
