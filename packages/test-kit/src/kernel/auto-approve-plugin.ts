/** An adapter that approves every request and records it. */
import type { BusEvent, KernelPlugin } from "@backplane/contract";

export function autoApprovePlugin(): { requests: BusEvent[]; yes: KernelPlugin } {
  const requests: BusEvent[] = [];
  const yes: KernelPlugin = {
    name: "yes",
    version: "1.0.0",
    category: "adapter",
    subscriptions: () => ["approval.request"],
    async onEvent(event, ctx) {
      requests.push(event);
      const { id } = event.payload as { id: string };
      await ctx.emit("approval.response", { id, response: "approve" }, { session_id: "kernel" });
    },
  };
  return { requests, yes };
}
