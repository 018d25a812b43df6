/**
 * Compacting a chain of 5,000 entries: the time without the model, which answers immediately, and how long the event
 * loop was blocked.
 */

import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Block, createIdSource, type KernelPlugin } from "@backplane/contract";
import { createKernel } from "@backplane/kernel";
import { plugin as react } from "@backplane/plugin-strategy-react";
import { hostPolicy, type Kernel } from "@backplane/ports";
import { createSecretVault, openSqliteStore } from "@backplane/store";
import { createSchemas } from "@backplane/supply";
import { measureLag } from "@backplane/test-kit/event-loop-lag";
import { inlineLoader } from "@backplane/test-kit/inline-loader";
import { realTimeClock as clock } from "@backplane/test-kit/real-time-clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { median } from "./measure.ts";
import { type Row, row } from "./row.ts";

const ENTRIES = 5_000;
const PAGE_SIZE = 500;
const REPETITIONS = 7;
const LIMIT_MS = 1_000;
const LAG_LIMIT_MS = 50;

const caller = {
  actor: "bench",
  scope: { org_id: "org_local", project_id: "proj_default" },
  role: "owner" as const,
  scopes: ["admin" as const],
  admin: true,
};

export async function compactChain(): Promise<Row[]> {
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
    const times: number[] = [];
    const lags: number[] = [];
    // The first round warms up. An undo makes the next round compact the same chain.
    for (let round = 0; round <= REPETITIONS; round++) {
      const lag = measureLag();
      const from = performance.now();
      await kernel.sessions.compact(caller, ref, { max_input_tokens: 32_000 });
      const ms = performance.now() - from;
      const blocked = await lag();
      await kernel.sessions.undoCompaction(caller, ref);
      if (round === 0) continue;
      times.push(ms);
      lags.push(blocked);
    }
    return [
      row("compact.turn", "ms, 5,000 entries, without the model", "lower", median(times), LIMIT_MS),
      row(
        "compact.turn.lag",
        "ms of CPU, longest pause of the event loop",
        "lower",
        median(lags),
        LAG_LIMIT_MS,
      ),
    ];
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
  const idle = {
    processes: 0,
    prewarmed: 0,
    running: 0,
    held_back: [],
    sandbox: { enabled: false, available: false, reason: "" },
  };
  const kernel: Kernel = createKernel({
    store,
    schemas,
    runner: {
      run: () => Promise.reject(new Error("this kernel has no runner")),
      cancel: () => false,
      retire: () => {},
      health: () => idle,
      close: async () => {},
    },
    importer: null as never,
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
    plugins: inlineLoader([model, react], tmpdir),
    pause: setImmediate,
  });
  await kernel.start();
  return {
    kernel,
    async close() {
      await kernel.stop(0);
      await store.close();
      await schemas.close();
    },
  };
}
