import { readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject, KernelPlugin, MemoryEntry } from "@backplane/contract";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  type ScriptedContext,
  scriptedContext,
} from "../../../test/support/kernel-plugins/scripted-context.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { plugin as bundled, createMemoryPlugin } from "../src/plugin.ts";
import { NOW_S, queryEvent, writeEvent } from "./memory-events.ts";

let dir: string;
let config: JsonObject;
let loaded: { plugin: KernelPlugin; ctx: ScriptedContext }[];

beforeEach(() => {
  dir = createMemoryFolder("memory-");
  config = {};
  loaded = [];
});
afterEach(async () => {
  for (const { plugin, ctx } of loaded) await plugin.onUnload!(ctx);
  rmSync(dir, { recursive: true });
});

async function loadMemory(plugin = createMemoryPlugin()) {
  const ctx = scriptedContext({ stateDir: dir, config: () => config, service: async () => null });
  loaded.push({ plugin, ctx });
  await plugin.onLoad!(ctx);
  const writeEntry = async (entry: Record<string, unknown>, change = {}): Promise<void> => {
    await plugin.onEvent!(writeEvent(entry, change), ctx);
  };
  const query = async (text: string, k = 5, change = {}): Promise<MemoryEntry[]> => {
    await plugin.onEvent!(queryEvent(text, k, change), ctx);
    return ctx.emitted.at(-1)!.payload.hits as MemoryEntry[];
  };
  return { plugin, ctx, writeEntry, query };
}

verifies("memory.store", "finds stored entries, at most k, even after a restart", async () => {
  const first = await loadMemory(bundled);
  await first.writeEntry({ text: "The spare key is under the mat", meta: { session_id: "sess_9" } });
  for (let index = 0; index < 8; index += 1)
    await first.writeEntry({ text: `The key number ${index} is lost` });
  expect(await first.query("spare key", 3)).toHaveLength(3);
  await first.plugin.onUnload!(first.ctx);

  const second = await loadMemory();
  const hits = await second.query("spare key", 3, { id: "evt_7", session_id: "sess_2" });
  expect(hits).toHaveLength(3);
  expect(hits[0]).toMatchObject({
    text: "The spare key is under the mat",
    meta: { session_id: "sess_9" },
    at: "2026-05-01T00:00:00.000Z",
  });
  expect(hits[0]!.score!).toBeGreaterThan(hits[1]!.score!);
  const { kind, session_id, payload } = second.ctx.emitted.at(-1)!;
  expect({ kind, session_id, request_id: payload.request_id }).toEqual({
    kind: "memory.result",
    session_id: "sess_2",
    request_id: "evt_7",
  });
});

test("separates the entries of orgs and projects", async () => {
  const { writeEntry, query } = await loadMemory();
  const tenants = ["org_a", "org_b"].flatMap((org_id) =>
    ["proj_1", "proj_2", null].map((project_id) => ({ org_id, project_id })),
  );
  await Promise.all(
    tenants.map((tenant) => writeEntry({ text: `secret of ${JSON.stringify(tenant)}` }, tenant)),
  );
  for (const tenant of tenants) {
    const hits = await query("secret", 50, tenant);
    expect(hits.map(({ text }) => text)).toEqual([`secret of ${JSON.stringify(tenant)}`]);
  }
  expect(await query("secret", 50)).toEqual([]);
});

test("handles any user input without an error", async () => {
  const { writeEntry, query, ctx } = await loadMemory();
  const hostile_text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom(
      '"',
      "NEAR(a b",
      'a" OR "b',
      "text:x",
      "*",
      "-",
      "^a",
      "a AND NOT",
      "\0a",
      "x'; drop table entry",
    ),
  );
  await fc.assert(
    fc.asyncProperty(hostile_text, fc.integer({ min: 0, max: 1_000_000 }), async (text, k) => {
      await writeEntry({ text });
      expect((await query(text, k)).length).toBeLessThanOrEqual(50);
    }),
    { numRuns: 60 },
  );
  expect(ctx.logged.filter(({ level }) => level === "error")).toEqual([]);
});

test("truncates or ignores malformed entries instead of failing", async () => {
  const { plugin, writeEntry, query, ctx } = await loadMemory();
  for (const entry of [{}, { text: 7 }, { text: " \n" }]) await writeEntry(entry);
  expect(ctx.logged.filter(({ level }) => level === "warn")).toHaveLength(3);
  expect(await plugin.healthCheck!(ctx)).toEqual({ status: "ok", summary: "0 entries" });

  await writeEntry({
    text: `long ${"😀".repeat(30_000)}`,
    meta: { big: "x".repeat(20_000) },
    id: "i".repeat(300),
    at: "2999-01-01T00:00:00Z",
  });
  const [hit] = await query("long");
  expect(Buffer.byteLength(hit!.text)).toBeLessThanOrEqual(65_536);
  expect(Buffer.byteLength(hit!.text)).toBeGreaterThan(65_530);
  expect(hit!.text).toMatch(/😀$/u);
  expect(hit!.meta).toBeUndefined();
  expect(hit!.id).toMatch(/^mem_[0-9a-f]{32}$/);
  expect(hit!.at).toBe("2026-05-01T00:00:00.000Z");
});

test("keeps the date of an older entry and applies a changed configuration to the next event", async () => {
  const { writeEntry, query } = await loadMemory();
  await writeEntry({ text: "coffee, coffee with milk", at: "2026-01-01T00:00:00Z" });
  await writeEntry({ text: "coffee without any sugar or milk" });
  for (const tea of ["black", "green", "white"]) await writeEntry({ text: `${tea} tea` });
  expect((await query("coffee milk"))[0]!.at).toBe("2026-01-01T00:00:00.000Z");
  config = { half_life_days: 7 };
  expect((await query("coffee milk"))[0]!.text).toContain("without");
  config = { max_entries: 2 };
  await writeEntry({ text: "water" }, { ts: NOW_S + 1 });
  expect(await query("coffee milk")).toEqual([]);
  expect(await query("water")).toHaveLength(1);
});

test("completes many concurrent writes and queries, each query with its own answer", async () => {
  const { writeEntry, query, ctx } = await loadMemory();
  const numbers = Array.from({ length: 200 }, (_, index) => index);
  await Promise.all(numbers.map((number) => writeEntry({ text: `apple number${number}x` })));
  await Promise.all(numbers.map((number) => query(`number${number}x`, 1, { id: `evt_${number}` })));
  const hits_by_request = new Map(ctx.emitted.map(({ payload }) => [payload.request_id, payload.hits]));
  for (const number of numbers) {
    expect(hits_by_request.get(`evt_${number}`)).toMatchObject([{ text: `apple number${number}x` }]);
  }
});

test("lets two hosts share one file by waiting for each other", async () => {
  const [first, second] = [await loadMemory(), await loadMemory()];
  const writes = Array.from({ length: 40 }, (_, index) =>
    (index % 2 === 0 ? first : second).writeEntry({ text: `w${index}` }),
  );
  await Promise.all(writes);
  expect(await first.plugin.healthCheck!(first.ctx)).toEqual({ status: "ok", summary: "40 entries" });
  expect(await second.query("w38")).toHaveLength(1);
});

test("makes the files readable only by the owner", async () => {
  const { writeEntry } = await loadMemory();
  await writeEntry({ text: "private" });
  const modes = readdirSync(dir).map((name) => [name, statSync(join(dir, name)).mode & 0o777]);
  expect(Object.fromEntries(modes)).toEqual({
    "memory.db": 0o600,
    "memory.db-shm": 0o600,
    "memory.db-wal": 0o600,
  });
});

test("reports a SQLite without FTS5 and still searches", async () => {
  const { query, writeEntry, ctx, plugin } = await loadMemory(createMemoryPlugin({ full_text: false }));
  expect(ctx.logged).toContainEqual({ level: "warn", message: expect.stringContaining("FTS5") as string });
  await writeEntry({ text: "The key is under the mat" });
  expect(await query("KEY")).toHaveLength(1);
  expect(await plugin.healthCheck!(ctx)).toMatchObject({ status: "degraded" });
});

test("fails to load a file that is not a database, and reports failed health", async () => {
  writeFileSync(join(dir, "memory.db"), "this file is not a database".repeat(100));
  const plugin = createMemoryPlugin();
  const ctx = scriptedContext({ stateDir: dir });
  expect(await plugin.healthCheck!(ctx)).toEqual({ status: "failed", summary: "The memory is not open." });
  await expect(plugin.onLoad!(ctx)).rejects.toThrow("not a database");
  expect(await plugin.healthCheck!(ctx)).toMatchObject({ status: "failed" });
  await expect(plugin.onEvent!(queryEvent("x", 1), ctx)).rejects.toThrow("not a database");
  expect(ctx.emitted).toMatchObject([{ kind: "memory.result", payload: { hits: [], request_id: "evt_1" } }]);
  await plugin.onUnload!(ctx);
});

test("finishes earlier requests on unload, unloads twice safely and reopens the file on reload", async () => {
  const { plugin, ctx, writeEntry, query } = await loadMemory();
  const writing = writeEntry({ text: "just in time" });
  await new Promise(setImmediate);
  await plugin.onUnload!(ctx);
  await plugin.onUnload!(ctx);
  await writing;
  await expect(writeEntry({ text: "too late" })).rejects.toThrow("not open");
  await plugin.onLoad!(ctx);
  expect(await query("just in time")).toHaveLength(1);
});

test("reports invalid settings in the health check", async () => {
  const { plugin, ctx } = await loadMemory();
  config = { max_entries: 0, half_life_days: "7" };
  const report = await plugin.healthCheck!(ctx);
  expect(report.status).toBe("degraded");
  expect(report.details!.map(({ message }) => message)).toEqual([
    "max_entries is not a whole number from 1 to 10000000",
    "half_life_days is not a number above 0",
  ]);
});
