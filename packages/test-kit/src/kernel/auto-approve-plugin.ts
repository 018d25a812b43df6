/** An adapter that approves every approval request and keeps the requests. */
import type { BusEvent, KernelPlugin } from "@backplane/contract";

export function autoApprovePlugin(): { requests: BusEvent[]; plugin: KernelPlugin } {
  const requests: BusEvent[] = [];
  const plugin: KernelPlugin = {
    name: "auto-approve",
    version: "1.0.0",
    category: "adapter",
    subscriptions: () => ["approval.request"],
    async onEvent(event, ctx) {
      requests.push(event);
      const { id } = event.payload as { id: string };
      await ctx.emit("approval.response", { id, response: "approve" }, { session_id: "kernel" });
    },
  };
  return { requests, plugin };
}
