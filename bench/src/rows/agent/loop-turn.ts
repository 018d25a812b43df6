/**
 * One turn: the model requests one tool, the tool returns, the model answers. The model answers immediately, and the
 * tool is inline and read-only. A turn of the gateway goes through the bus, the strategy, the door and the tape. The
 * limit is a minimal loop on the same SQLite (WAL, FULL): four consecutive commits per turn and nothing else. The peer
 * is the Vercel AI SDK, which stores nothing: `generateText` is compared with turns that answer without streaming,
 * `streamText` with turns whose model streams its answer.
 */

import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createIdSource, type KernelPlugin } from "@backplane/contract";
import { createKernel } from "@backplane/kernel";
import { plugin as react } from "@backplane/plugin-strategy-react";
import { hostPolicy, type Kernel } from "@backplane/ports";
import { createSecretVault, openSqliteStore } from "@backplane/store";
import { createSchemas } from "@backplane/supply";
import { createInlineLoader } from "@backplane/test-kit/inline-loader";
import { realTimeClock as clock } from "@backplane/test-kit/real-time-clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";

const SESSIONS = 100;
const TURNS = 3_000;
const SEQUENTIAL = 400;
const TURNS_PER_SESSION = 10;
const REPETITIONS = 5;
/** Prefix of the sessions whose model streams its answer. */
const STREAMED = "streamed-";

const caller = {
  actor: "bench",
  scope: { org_id: "org_local", project_id: "proj_default" },
  role: "owner" as const,
  scopes: ["admin" as const],
  admin: true,
};

export async function measureLoopTurn(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-bench-loop-"));
  const gateway = await createGateway(join(folder, "gateway.db"));
  const minimal = createMinimalLoop(join(folder, "minimal.db"));
  try {
    const rates = {
      sequential: [] as number[],
      minimal: [] as number[],
      concurrent: [] as number[],
      peer: [] as number[],
      streamed: [] as number[],
      peer_streamed: [] as number[],
    };
    for (let repetition = 0; repetition <= REPETITIONS; repetition++) {
      const sequential = await measureRate(SEQUENTIAL, 1, gateway.runTurn);
      const minimal_rate = await measureRate(SEQUENTIAL, 1, minimal.runTurn);
      const concurrent = await measureRate(TURNS, SESSIONS, gateway.runTurn);
      const peer = await measureRate(TURNS, SESSIONS, generateWithAiSdk);
      const streamed = await measureRate(TURNS, SESSIONS, (conversation) =>
        gateway.runTurn(`${STREAMED}${conversation}`),
      );
      const peer_streamed = await measureRate(TURNS, SESSIONS, streamWithAiSdk);
      if (repetition === 0) continue;
      rates.sequential.push(sequential);
      rates.minimal.push(minimal_rate);
      rates.concurrent.push(concurrent);
      rates.peer.push(peer);
      rates.streamed.push(streamed);
      rates.peer_streamed.push(peer_streamed);
    }
    return [
      createRow(
        "loop.turn.sequential",
        "turns/s, durable",
        "higher",
        median(rates.sequential),
        median(rates.minimal),
      ),
      createRow(
        "loop.turn.concurrent",
        `turns/s, ${SESSIONS} sessions, durable`,
        "higher",
        median(rates.concurrent),
        null,
        {
          "ai-7": median(rates.peer),
        },
      ),
      createRow(
        "loop.turn.streamed",
        `turns/s, ${SESSIONS} sessions, durable, streamed`,
        "higher",
        median(rates.streamed),
        null,
        { "ai-7-stream": median(rates.peer_streamed) },
      ),
    ];
  } finally {
    minimal.close();
    await gateway.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Turns per second with `concurrency` conversations at a time. After TURNS_PER_SESSION turns, a new conversation
 * replaces each.
 */
async function measureRate(
  turns: number,
  concurrency: number,
  runTurn: (conversation: string) => Promise<void> | void,
): Promise<number> {
  const run = Math.random().toString(36).slice(2);
  let remaining = turns;
  const from = performance.now();
  await Promise.all(
    Array.from({ length: concurrency }, async (_, i) => {
      for (let n = 0; remaining-- > 0; n++) await runTurn(`${run}-${i}-${Math.floor(n / TURNS_PER_SESSION)}`);
    }),
  );
  return (turns / (performance.now() - from)) * 1000;
}

async function createGateway(
  file: string,
): Promise<{ runTurn: (session_id: string) => Promise<void>; close(): Promise<void> }> {
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
    plugins: createInlineLoader([model, react, adder], tmpdir),
    pause: setImmediate,
  });
  await kernel.start();
  return {
    async runTurn(session_id) {
      const { settled } = await kernel.runs.start(caller, { session_id, input: { text: "what is 2 + 3?" } });
      const { status, output } = await settled;
      if (status !== "completed" || output?.content !== "5")
        throw new Error(`a turn ended with the status ${status}`);
    },
    async close() {
      await kernel.stop(0);
      await store.close();
      await schemas.close();
    },
  };
}

const usage = {
  input_other: 10,
  input_cache_read: 0,
  input_cache_creation: 0,
  output: 5,
  input: 10,
  total: 15,
};

const model: KernelPlugin = {
  name: "model",
  version: "1.0.0",
  category: "llm-provider",
  subscriptions: () => ["llm.call.request"],
  async onEvent(event, ctx) {
    const messages = event.payload.messages as { role: string; content: unknown }[];
    const last = messages.at(-1)!;
    const answer =
      last.role === "tool"
        ? { text: String(last.content), tool_calls: [] }
        : { text: "", tool_calls: [{ id: "call_1", name: "add", args: { a: 2, b: 3 } }] };
    if (event.session_id.startsWith(STREAMED) && answer.text !== "") {
      await ctx.emit("llm.call.delta", { content: answer.text, request_id: event.id }, event);
    }
    await ctx.emit("llm.call.response", { ...answer, usage, request_id: event.id }, event);
  },
};

const parameters = {
  type: "object" as const,
  properties: { a: { type: "number" as const }, b: { type: "number" as const } },
  required: ["a", "b"],
};

const adder: KernelPlugin = {
  name: "adder",
  version: "1.0.0",
  category: "tool",
  subscriptions: () => [],
  async onLoad(ctx) {
    await ctx.registerTool({
      name: "add",
      description: "Adds two numbers.",
      parameters,
      effect_class: "read_only",
      run({ a, b }) {
        const text = String(Number(a) + Number(b));
        return { ok: true, brief: text, display: { kind: "text", text } };
      },
    });
  },
};

/** The minimal durable loop: message, call, result and answer are each on disk before the next step. */
function createMinimalLoop(file: string): { runTurn: (session: string) => void; close(): void } {
  const database = new DatabaseSync(file);
  database.exec("pragma journal_mode = wal; pragma synchronous = full");
  database.exec(
    "create table entries (session text, id integer, kind text, payload text, primary key (session, id))",
  );
  const insert = database.prepare("insert into entries values (?, ?, ?, ?)");
  const next = new Map<string, number>();
  const write = (session: string, kind: string, payload: unknown) => {
    const id = (next.get(session) ?? 0) + 1;
    next.set(session, id);
    insert.run(session, id, kind, JSON.stringify(payload));
  };
  return {
    runTurn(session) {
      write(session, "message", { role: "user", content: "what is 2 + 3?" });
      const call = { id: "call_1", name: "add", args: { a: 2, b: 3 } };
      write(session, "tool_call", call);
      const result = String(call.args.a + call.args.b);
      write(session, "tool_result", { id: call.id, result });
      write(session, "message", { role: "assistant", content: result });
    },
    close: () => database.close(),
  };
}

const tools = {
  add: tool({
    description: "Adds two numbers.",
    inputSchema: jsonSchema(parameters),
    execute: async ({ a, b }: { a: number; b: number }) => String(a + b),
  }),
};

async function generateWithAiSdk(): Promise<void> {
  let requested = false;
  const counts = { inputTokens: { total: 10 }, outputTokens: { total: 5 } } as never;
  const mock = new MockLanguageModelV3({
    async doGenerate() {
      const content = requested
        ? [{ type: "text", text: "5" }]
        : [{ type: "tool-call", toolCallId: "call_1", toolName: "add", input: '{"a":2,"b":3}' }];
      const finishReason = { unified: requested ? "stop" : "tool-calls", raw: undefined };
      requested = true;
      return { content, finishReason, usage: counts, warnings: [] } as never;
    },
  });
  const { text } = await generateText({
    model: mock,
    prompt: "what is 2 + 3?",
    tools,
    stopWhen: stepCountIs(5),
  });
  if (text !== "5") throw new Error(`the peer answered ${text}`);
}

async function streamWithAiSdk(): Promise<void> {
  let requested = false;
  const counts = { inputTokens: { total: 10 }, outputTokens: { total: 5 } };
  const mock = new MockLanguageModelV3({
    async doStream() {
      const parts: object[] = [{ type: "stream-start", warnings: [] }];
      if (requested) {
        parts.push({ type: "text-start", id: "1" }, { type: "text-delta", id: "1", delta: "5" });
        parts.push({ type: "text-end", id: "1" });
      } else {
        parts.push({ type: "tool-call", toolCallId: "call_1", toolName: "add", input: '{"a":2,"b":3}' });
      }
      const finishReason = { unified: requested ? "stop" : "tool-calls", raw: undefined };
      parts.push({ type: "finish", finishReason, usage: counts });
      requested = true;
      const stream = new ReadableStream({
        start(controller) {
          for (const part of parts) controller.enqueue(part);
          controller.close();
        },
      });
      return { stream } as never;
    },
  });
  const { text } = streamText({ model: mock, prompt: "what is 2 + 3?", tools, stopWhen: stepCountIs(5) });
  if ((await text) !== "5") throw new Error(`the peer answered ${await text}`);
}
