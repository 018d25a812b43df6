/** An adapter that approves every request and records it. */
import type { BusEvent, KernelPlugin } from "@backplane/contract";

export function yesPlugin(): { asked: BusEvent[]; yes: KernelPlugin } {
  const asked: BusEvent[] = [];
  const yes: KernelPlugin = {
    name: "yes",
    version: "1.0.0",
    category: "adapter",
    subscriptions: () => ["approval.request"],
    async onEvent(event, ctx) {
      asked.push(event);
      const { id } = event.payload as { id: string };
      await ctx.emit("approval.response", { id, response: "approve" }, { session_id: "kernel" });
    },
  };
  return { asked, yes };
}
