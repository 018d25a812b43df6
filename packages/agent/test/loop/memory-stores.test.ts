/** Several memory plugins: the loop asks each one and merges what they found. */
import type { KernelPlugin, MemoryEntry } from "@backplane/contract";
import { user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, strategyPlugin } from "./test-session.ts";

function memoryPlugin(name: string, memory: KernelPlugin["memory"], hits: MemoryEntry[]): KernelPlugin {
  return {
    name,
    version: "1.0.0",
    category: "memory",
    ...(memory === undefined ? {} : { memory }),
    subscriptions: () => ["memory.query"],
    async onEvent(event, ctx) {
      await ctx.emit("memory.result", { hits: hits as never, request_id: event.id }, event);
    },
  };
}

verifies(
  "memory.store",
  "merges the hits of short-term and long-term stores and names their source",
  async () => {
    const found: (MemoryEntry[] | null)[] = [];
    const asking = strategyPlugin("asking", ({ memory }) => {
      found.push(memory);
      return memory === null ? { next: "memory", query: "paris", k: 3 } : { next: "done", content: "ok" };
    });
    const fixture = await createTestSession({
      plugins: [
        asking,
        memoryPlugin("archive", undefined, [
          { text: "a city", score: 0.9 },
          { text: "equal", score: 0.5 },
          { text: "far", score: 0.1 },
        ]),
        memoryPlugin("recent", "short-term", [
          { text: "today", score: 0.5 },
          { text: "a city", score: 0.2 },
        ]),
      ],
    });
    await fixture.kernel.sessions.create(user, { session_id: "s1", strategy: "asking" });
    expect((await fixture.say("hello")).status).toBe("completed");
    expect(found.at(-1)).toEqual([
      { text: "a city", score: 0.9, source: "archive", store: "long-term" },
      { text: "today", score: 0.5, source: "recent", store: "short-term" },
      { text: "equal", score: 0.5, source: "archive", store: "long-term" },
    ]);
  },
);
