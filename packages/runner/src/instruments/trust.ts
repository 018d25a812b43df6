/** Whether a module may run in the gateway's own process: class inline is the operator's word for it, and the only one. */
import { BackplaneError } from "@backplane/contract";
import type { RunOrder } from "@backplane/kernel/ports";

export function isInline({
  class: given,
  package: { runtime },
}: Pick<RunOrder, "class" | "package">): boolean {
  return given === "inline" && runtime.protocol === "module.instrument";
}

/** Isolated is the class of a binding that nobody has looked at; with worker it is External, in a process. */
export function untrusted(order: Pick<RunOrder, "binding_id" | "class" | "package">): BackplaneError | null {
  const { package_id, runtime } = order.package;
  if (runtime.protocol !== "module.instrument" || order.class !== "isolated") return null;
  const isolation = runtime.instrument?.isolation ?? "InProcess";
  return new BackplaneError(
    "plugin.untrusted",
    `${package_id} wants to run in the gateway's own process (${isolation}), and no operator has trusted it. Run it as External, in a process of its own, with \`backplane binding set ${order.binding_id} --class worker\`; or, if you trust its code with everything, with --class inline.`,
  );
}
