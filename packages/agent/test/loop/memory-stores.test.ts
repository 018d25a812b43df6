/** Turns with several memory plugins: the stores that the loop queries and writes, and how it merges their hits. */
import type { Decision, KernelPlugin, MemoryEntry } from "@backplane/contract";
import { user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
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
  "merges the hits of short-term and long-term stores and includes their source",
  async () => {
    const results: (MemoryEntry[] | null)[] = [];
    const queryingStrategy = strategyPlugin("querying", ({ memory }) => {
      results.push(memory);
      return memory === null ? { next: "memory", query: "paris", k: 3 } : { next: "done", content: "ok" };
    });
    const fixture = await createTestSession({
      plugins: [
        queryingStrategy,
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
    await fixture.kernel.sessions.create(user, { session_id: "s1", strategy: "querying" });
    expect((await fixture.say("hello")).status).toBe("completed");
    expect(results.at(-1)).toEqual([
      { text: "a city", score: 0.9, source: "archive", store: "long-term" },
      { text: "today", score: 0.5, source: "recent", store: "short-term" },
      { text: "equal", score: 0.5, source: "archive", store: "long-term" },
    ]);
  },
);

test("continues a turn without the memories of a store that throws", async () => {
  const queryingStrategy = strategyPlugin("querying", ({ memory }) =>
    memory === null
      ? { next: "memory", query: "paris" }
      : { next: "done", content: `${memory.length} found` },
  );
  const broken: KernelPlugin = {
    ...memoryPlugin("broken", undefined, []),
    onEvent: () => Promise.reject(new Error("no disk")),
  };
  const works = memoryPlugin("works", undefined, [{ text: "a city", score: 1 }]);
  const fixture = await createTestSession({ plugins: [queryingStrategy, broken, works] });
  await fixture.kernel.sessions.create(user, { session_id: "s1", strategy: "querying" });
  expect((await fixture.say("hello")).output!.content).toBe("1 found");
});

const DAY_MS = 24 * 3_600_000;

/** Creates a session with two stores, and records the queries and writes that reach them. */
async function createSessionWithStores(decide: (queried: boolean) => Decision) {
  const received: string[] = [];
  const store = (name: string, memory: "short-term" | "long-term", hits: MemoryEntry[]): KernelPlugin => {
    const plugin = memoryPlugin(name, memory, hits);
    return {
      ...plugin,
      subscriptions: () => ["memory.query", "memory.write"],
      async onEvent(event, ctx) {
        received.push(`${name} ${event.kind}`);
        if (event.kind === "memory.query") await plugin.onEvent!(event, ctx);
      },
    };
  };
  const results: (MemoryEntry[] | null)[] = [];
  const strategy = strategyPlugin("choosing", ({ memory, phase }) => {
    results.push(memory);
    return decide(phase !== "start");
  });
  const fixture = await createTestSession({
    plugins: [
      strategy,
      store("recent", "short-term", [{ text: "today", score: 0.2 }]),
      store("archive", "long-term", [{ text: "last year", score: 0.9 }]),
    ],
  });
  await fixture.kernel.sessions.create(user, { session_id: "s1", strategy: "choosing" });
  const say = async () => {
    received.length = 0;
    expect((await fixture.say("hello")).status).toBe("completed");
    return { received: [...received], hits: results.at(-1)?.map(({ text }) => text) };
  };
  return { fixture, received, say };
}

verifies(
  ["memory.store", "plug.extras"],
  "queries short-term stores first for a recent session and long-term stores first for an old one, then the others",
  async () => {
    let k = 1;
    const { fixture, say } = await createSessionWithStores((queried) =>
      queried ? { next: "done", content: "ok" } : { next: "memory", query: "when", k },
    );
    expect(await say()).toEqual({ received: ["recent memory.query"], hits: ["today"] });
    fixture.clock.wall_offset += DAY_MS - 60_000;
    expect(await say()).toEqual({ received: ["recent memory.query"], hits: ["today"] });
    fixture.clock.wall_offset += 120_000;
    expect(await say()).toEqual({ received: ["archive memory.query"], hits: ["last year"] });
    k = 2;
    expect(await say()).toEqual({
      received: ["archive memory.query", "recent memory.query"],
      hits: ["last year", "today"],
    });
  },
);

verifies(
  ["memory.store", "plug.extras"],
  "lets a strategy choose the stores of a query and a write",
  async () => {
    let stores: string[] | undefined;
    let write: MemoryEntry = { text: "note" };
    const { received, say } = await createSessionWithStores((queried) =>
      queried
        ? { next: "done", content: "ok", write }
        : { next: "memory", query: "when", k: 5, ...(stores === undefined ? {} : { stores }) },
    );
    const storesThatReceived = async (kind: string, writes = 1) => {
      await say();
      await expect.poll(() => received.filter((line) => line.endsWith("memory.write")).length).toBe(writes);
      return received.filter((line) => line.endsWith(kind)).map((line) => line.split(" ")[0]);
    };
    expect((await storesThatReceived("memory.write", 2)).toSorted()).toEqual(["archive", "recent"]);
    stores = ["long-term"];
    write = { text: "note", store: "short-term" };
    expect(await storesThatReceived("memory.query")).toEqual(["archive"]);
    expect(received.filter((line) => line.endsWith("memory.write"))).toEqual(["recent memory.write"]);
    stores = ["recent"];
    write = { text: "note", source: "archive" };
    expect(await storesThatReceived("memory.query")).toEqual(["recent"]);
    expect(received.filter((line) => line.endsWith("memory.write"))).toEqual(["archive memory.write"]);
  },
);
