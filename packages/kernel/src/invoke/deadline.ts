/** inv.deadline: the first that is set of caller's, binding's and export's; capped by export and host. */
import type { Binding, PluginExport } from "@backplane/contract";

export function timeoutFor(
  asked: number | undefined,
  binding: Pick<Binding, "policy">,
  item: PluginExport,
  host_max_ms: number,
): number {
  const wanted = asked ?? binding.policy.timeout_ms ?? item.default_timeout_ms;
  return Math.min(wanted, item.max_timeout_ms ?? host_max_ms, host_max_ms);
}
