/**
 * The compaction of a chain of 5,000 entries, once with a summary by the model and once with a bound compactor: how long
 * it takes and how long it blocks the event loop. The model and the compactor answer immediately, so the time is that of
 * the gateway. The compactor returns the newest 500 blocks of its request unchanged, so the gateway checks its whole
 * answer and writes 500 entries.
 */

import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Block, createIdSource, type Json, type KernelPlugin } from "@backplane/contract";
import { createKernel } from "@backplane/kernel";
import { plugin as react } from "@backplane/plugin-strategy-react";
import { hostPolicy, type Kernel } from "@backplane/ports";
import { createSecretVault, openSqliteStore } from "@backplane/store";
import { createSchemas } from "@backplane/supply";
import { measureLag } from "@backplane/test-kit/event-loop-lag";
import { createInlineLoader } from "@backplane/test-kit/inline-loader";
import { manifest, TestImporter } from "@backplane/test-kit/kernel/manifests";
import { ok, ScriptedRunner } from "@backplane/test-kit/kernel/scripted-runner";
import { realTimeClock as clock } from "@backplane/test-kit/real-time-clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";

const ENTRIES = 5_000;
const PAGE_SIZE = 500;
const REPETITIONS = 7;
const LIMIT_MS = 1_000;
const LAG_LIMIT_MS = 50;
const COMPACTOR = "keep_newest";
/** The blocks that the bound compactor returns. */
const KEPT_BLOCKS = 500;

const caller = {
  actor: "bench",
  scope: { org_id: "org_local", project_id: "proj_default" },
  role: "owner" as const,
  scopes: ["admin" as const],
  admin: true,
};

export async function measureCompaction(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-bench-compact-"));
  const opened = await createBenchKernel(join(folder, "store.db"));
  const { kernel } = opened;
  const ref = { session_id: "long" };
  try {
    const { head_chain_id } = await kernel.sessions.create(caller, ref);
    for (let n = 0; n < ENTRIES; n += PAGE_SIZE)
      await kernel.chains.addBlocks(
        caller,
        head_chain_id,
        Array.from({ length: PAGE_SIZE }, (_, i) => block(n + i)),
      );
    const rows: Row[] = [];
    for (const [name, compactor, without] of [
      ["compact.turn", "model", "the model"],
      ["compact.turn.bound", COMPACTOR, "the bound compactor"],
    ] as const) {
      const times: number[] = [];
      const lags: number[] = [];
      // The first round warms up. An undo makes the next round compact the same chain.
      for (let round = 0; round <= REPETITIONS; round++) {
        const lag = measureLag();
        const from = performance.now();
        const { id } = await kernel.sessions.compact(caller, ref, { max_input_tokens: 32_000, compactor });
        const ms = performance.now() - from;
        const blocked = await lag();
        const { compactor: used, loss } = await kernel.sessions.getCompaction(caller, id);
        if ((used?.export_id ?? "model") !== compactor || loss === null || loss.dropped === 0)
          throw new Error(`${name} measured another compaction`);
        await kernel.sessions.undoCompaction(caller, ref);
        if (round === 0) continue;
        times.push(ms);
        lags.push(blocked);
      }
      rows.push(
        createRow(name, `ms, 5,000 entries, without ${without}`, "lower", median(times), LIMIT_MS),
        createRow(
          `${name}.lag`,
          "ms of CPU, longest pause of the event loop, without garbage collection",
          "lower",
          median(lags),
          LAG_LIMIT_MS,
        ),
      );
    }
    return rows;
  } finally {
    await opened.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function block(n: number): Block {
  const text = `message ${n}: ${"some words that a person or a model would say. ".repeat(4)}`;
  return { kind: n % 2 === 0 ? "input" : "response", content: [{ type: "text", text }] };
}

const model: KernelPlugin = {
  name: "model",
  version: "1.0.0",
  category: "llm-provider",
  subscriptions: () => ["llm.call.request"],
  async onEvent(event, ctx) {
    const usage = {
      input_other: 10,
      input_cache_read: 0,
      input_cache_creation: 0,
      output: 5,
      input: 10,
      total: 15,
    };
    await ctx.emit(
      "llm.call.response",
      { text: "a summary", tool_calls: [], usage, request_id: event.id },
      event,
    );
  },
};

async function createBenchKernel(file: string): Promise<{ kernel: Kernel; close(): Promise<void> }> {
  const store = await openSqliteStore({ file });
  const schemas = createSchemas();
  const random = (bytes: Uint8Array) => void randomFillSync(bytes);
  const ids = createIdSource(Date.now, random);
  const importer = new TestImporter();
  const runner = new ScriptedRunner();
  runner.script = ({ request }) => {
    const { projection } = request.body.source as unknown as { projection: { blocks: Json[] } };
    return ok({ seed_blocks: projection.blocks.slice(-KEPT_BLOCKS), summary: { text: "a summary" } });
  };
  const kernel: Kernel = createKernel({
    store,
    schemas,
    runner,
    importer,
    vault: createSecretVault([{ id: "k", key: new Uint8Array(32) }]),
    clock,
    ids,
    node_id: ids.next("node"),
    random,
    host: hostPolicy({}),
    gateway: { base_url: () => "" },
    log: createTestLogger((level, message, fields) => {
      if (level === "error") console.error(message, fields);
    }),
    plugins: createInlineLoader([model, react], tmpdir),
    pause: setImmediate,
  });
  await kernel.start();
  // The request is too large for one frame, so it is passed as a file in the scratch folder.
  const permissions = { filesystem: "scratch" };
  const content = manifest([{ id: COMPACTOR, kind: "compactor", compactor: {}, permissions }]);
  await kernel.packages.install(caller, importer.add(content));
  const { package_id, version } = content;
  await kernel.bindings.create(caller, { package_id, package_version: version, export_id: COMPACTOR });
  return {
    kernel,
    async close() {
      await kernel.stop(0);
      await store.close();
      await schemas.close();
    },
  };
}
