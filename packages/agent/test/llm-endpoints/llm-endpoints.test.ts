/** Model calls by API clients: their records after a crash, their limits, and refused calls. */
import type { KernelPlugin } from "@backplane/contract";
import { type Caller, hostPolicy, type LlmEndpointPart, type LlmEndpointRequest } from "@backplane/ports";
import { openPostgresStore } from "@backplane/store";
import { admin, createTestKernel, seedTestKernel, until } from "@backplane/test-kit/kernel/test-kernel";
import { expect, onTestFinished, test } from "vitest";
import { startPostgres } from "../../../../test/support/store/postgres.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { createLlmEndpoints, MAX_CALLS_PER_CALLER } from "../../src/llm-endpoints/llm-endpoints.ts";

/** A provider that receives calls and never answers them. */
function silentProvider(received: string[] = []): KernelPlugin {
  return {
    name: "llm-silent",
    version: "1.0.0",
    category: "llm-provider",
    providerId: "llm-silent",
    configSchema: { type: "object", properties: { model: { type: "string", default: "m" } } },
    subscriptions: () => ["llm.call.request"],
    onEvent: ({ id }) => void received.push(id),
  };
}

const request: LlmEndpointRequest = {
  protocol: "chat",
  model: "llm-silent/m",
  stream: true,
  messages: [{ role: "user", content: "hello" }],
  tools: [],
  options: {},
  body: { model: "llm-silent/m", messages: [{ role: "user", content: "hello" }] },
  headers: {},
};

verifies("llm.gateway", "reports a model call as lost after a crash of the gateway", async () => {
  const received: string[] = [];
  const first = await createTestKernel({ plugins: [silentProvider(received)] });
  const { id } = await first.kernel.llm.call(admin, request, new AbortController().signal);
  await until(() => received.length === 1);
  expect(await first.kernel.llm.get(admin, id)).toMatchObject({ status: "running", usage: null });
  await first.crash();
  const second = await createTestKernel({ file: first.file, plugins: [silentProvider()] });
  expect(await second.kernel.llm.get(admin, id)).toMatchObject({ status: "lost", actor: "admin" });
});

verifies(
  "llm.gateway",
  "reports the model calls of a dead gateway as lost when its lease has expired, and no others",
  async () => {
    const server = await startPostgres();
    onTestFinished(() => server.stop());
    const host = { recovery: { interval_ms: 50, node_ttl_ms: 1_500 } };
    const startGateway = async () => {
      const store = await openPostgresStore({ url: server.url });
      return await seedTestKernel(store, "", { host, plugins: [silentProvider()] });
    };
    const [first, second] = [await startGateway(), await startGateway()];
    const { signal } = new AbortController();
    const { id } = await first.kernel.llm.call(admin, request, signal);
    const other = await second.kernel.llm.call(admin, request, signal);
    const status = async (call: string) => (await second.kernel.llm.get(admin, call)).status;
    await first.crash();
    expect(await status(id)).toBe("running");
    await until(async () => (await status(id)) === "lost");
    expect(await status(other.id)).toBe("running");
  },
  60_000,
);

test("cancels and settles running model calls when the gateway stops", async () => {
  const { kernel, store } = await createTestKernel({ plugins: [silentProvider()] });
  const { id, parts } = await kernel.llm.call(admin, request, new AbortController().signal);
  const ended = parts[Symbol.asyncIterator]().next();
  const failed = expect(ended).rejects.toMatchObject({ code: "cancelled" });
  await kernel.stop(0);
  await failed;
  expect(await store.llm_calls.get(admin.scope, id)).toMatchObject({ status: "cancelled" });
});

test("delivers the answer of a provider that does not stream", async () => {
  const nonStreamingProvider: KernelPlugin = {
    ...silentProvider(),
    async onEvent({ id, session_id }, ctx) {
      const tool_calls = [{ id: "c1", name: "look", args: { at: "it" } }];
      const payload = { text: "all at once", tool_calls, usage: { output: 3 }, request_id: id };
      await ctx.emit("llm.call.response", payload, { session_id });
    },
  };
  const { kernel } = await createTestKernel({ plugins: [nonStreamingProvider] });
  const { parts } = await kernel.llm.call(admin, request, new AbortController().signal);
  const all: LlmEndpointPart[] = [];
  for await (const part of parts) all.push(part);
  expect(all).toMatchObject([
    { type: "content", text: "all at once" },
    { type: "tool_call", index: 0, id: "c1", name: "look", args: '{"at":"it"}' },
    { type: "end", usage: { output: 3 } },
  ]);
});

test("writes no record for a model that no instance offers", async () => {
  const { kernel } = await createTestKernel({ plugins: [silentProvider()] });
  const unknown = { ...request, model: "gpt-none" };
  await expect(kernel.llm.call(admin, unknown, new AbortController().signal)).rejects.toMatchObject({
    code: "llm.model_not_found",
  });
  expect((await kernel.llm.list(admin, {}, { limit: 5 })).items).toEqual([]);
});

test("refuses model calls in an archived project", async () => {
  const { kernel } = await createTestKernel({ plugins: [silentProvider()] });
  await kernel.policy.patch(admin, "project", { archived: true });
  await expect(kernel.llm.call(admin, request, new AbortController().signal)).rejects.toMatchObject({
    code: "authority.project_archived",
  });
});

/** The endpoints of one gateway, with a provider that never answers. */
function createEndpoints() {
  const opened: { reserved: number }[] = [];
  const lost: number[] = [];
  const scheduled: (() => void)[] = [];
  let now = 1_000_000;
  const store = {
    shared: true,
    keys: { get: async () => ({ llm: { tokens_per_day: 1_000_000 } }) },
    llm_calls: {
      open: async (_call: unknown, _deadline: number, _uses: unknown, reserved: number) =>
        void opened.push({ reserved }),
      settle: async () => true,
      endLost: async (before: number) => lost.push(before) * 0,
    },
  };
  const clock = {
    now: () => now,
    monotonic: () => now,
    after: (_ms: number, work: () => void) => {
      scheduled.push(work);
      return { stop() {} };
    },
  };
  let id = 0;
  const options = {
    deps: {
      store,
      clock,
      host: hostPolicy(),
      ids: { next: () => `llmc_${id++}` },
      log: { warn() {}, error() {} },
    },
    door: {
      lease: { mayTakeOver: () => true },
      authority: { require: async () => {}, resolveRoot: ({ actor }: Caller) => ({ actor }) },
      policies: { getEffective: async () => ({ document: { llm: {} } }) },
      store_wait: { run: (_what: string, work: () => Promise<unknown>) => work() },
    },
    models: { call: () => new Promise(() => {}) },
    port: { tryPublish() {} },
    prepare: async () => {},
    active_models: { list: async () => [{ id: "llm-silent", label: "", config: { model: "m" } }] },
    findPlugin: async () => silentProvider(),
  } as unknown as Parameters<typeof createLlmEndpoints>[0];
  const module = createLlmEndpoints(options);
  const call = (actor: string, body = request.body) =>
    module.facade.call({ ...admin, actor }, { ...request, body }, new AbortController().signal);
  const tick = async (ms: number) => {
    now += ms;
    for (const work of scheduled.splice(0)) work();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { module, call, opened, lost, scheduled, tick };
}

const KEY = "key_00000000000000000000000001";

verifies("llm.gateway", "limits the running model calls of each credential separately", async () => {
  const { call } = createEndpoints();
  for (let index = 0; index < MAX_CALLS_PER_CALLER; index++) await call(KEY);
  await expect(call(KEY)).rejects.toMatchObject({ code: "request.overloaded" });
  await call("key_00000000000000000000000002");
});

verifies("llm.gateway", "reserves tokens for each answer that a client requests", async () => {
  const { call, opened } = createEndpoints();
  await call(KEY);
  await call(KEY, { ...request.body, n: 8 });
  await call(KEY, { ...request.body, n: "many" });
  const [one, eight, invalid] = opened.map(({ reserved }) => reserved) as [number, number, number];
  expect(eight - one).toBeGreaterThan(7 * 4_096 - 10);
  expect(invalid).toBeLessThan(one + 100);
});

verifies("llm.gateway", "ends lost calls at the start and periodically until the gateway stops", async () => {
  const { module, lost, tick, scheduled } = createEndpoints();
  await module.start();
  // A call of another gateway may settle up to 30 s after its deadline.
  expect(lost).toEqual([970_000]);
  await tick(60_000);
  await tick(60_000);
  expect(lost).toEqual([970_000, 1_030_000, 1_090_000]);
  await module.stop();
  await tick(60_000);
  expect(scheduled).toEqual([]);
});
