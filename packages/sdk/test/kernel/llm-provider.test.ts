import type { GenerateRequest, LlmPart, LlmProvider, ProviderInstance } from "@backplane/contract";
import { expect, test, vi } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { LlmCallError, type LlmProviderOptions, llmProviderPlugin } from "../../src/kernel/index.ts";
import { instanceOf, LlmBus } from "./llm-bus.ts";

type Generate = (request: GenerateRequest, instance: ProviderInstance) => AsyncIterable<LlmPart>;

function busOf(generate: Generate, options: Partial<LlmProviderOptions> & Partial<LlmProvider> = {}) {
  const { onRetryableError, ...rest } = options;
  const built: string[] = [];
  const plugin = llmProviderPlugin({
    name: "llm-test",
    version: "1.0.0",
    configSchema: { type: "object" },
    create(instance) {
      built.push(instance.id);
      return {
        generate: (request) => generate(request, instance),
        ...(onRetryableError ? { onRetryableError } : {}),
      };
    },
    ...rest,
  });
  const bus = new LlmBus(plugin, [instanceOf("llm-test")]);
  return { bus, plugin, built };
}

async function* parts(...list: LlmPart[]): AsyncGenerator<LlmPart, void, undefined> {
  yield* list;
}

/** Says one thing and then nothing until it is stopped. */
async function* stuck(request: GenerateRequest): AsyncGenerator<LlmPart, void, undefined> {
  yield { type: "content", text: "so far" };
  await new Promise<void>((resolve) => request.signal.addEventListener("abort", () => resolve()));
}

verifies(
  "llm.provider",
  "parts become deltas in order, then one response with derived usage, all with the request's id",
  async () => {
    const seen: GenerateRequest[] = [];
    const { bus } = busOf((request) => {
      seen.push(request);
      return parts(
        { type: "thinking", text: "hm" },
        { type: "content", text: "It is " },
        { type: "usage", usage: { input_other: 5, input_cache_read: 3, input_cache_creation: 2 } },
        { type: "tool_call", index: 0, id: "c1", name: "add", args: '{"a":1' },
        { type: "tool_call", index: 1, id: "c2", name: "now" },
        { type: "tool_call", index: 0, args: ',"b":2}' },
        { type: "usage", usage: { output: 7 } },
        { type: "stop", reason: "tool_use", model: "m1-2026" },
      );
    });
    const tools = [{ name: "add", description: "Adds", parameters: { type: "object" } }];
    const messages = [
      { role: "system", content: "Be short." },
      { role: "system", content: "Be kind." },
      { role: "user", content: "1+2?" },
    ];
    const end = await bus.end({ messages, tools, params: { temperature: 0 } });
    expect(seen[0]).toMatchObject({
      model: "m1",
      system: "Be short.\n\nBe kind.",
      history: [{ role: "user", content: "1+2?" }],
      tools,
      params: { temperature: 0 },
    });
    expect(bus.deltas()).toEqual([
      { thinking: "hm" },
      { content: "It is " },
      { tool_call_partial: { index: 0, id: "c1", name: "add", args: '{"a":1' } },
      { tool_call_partial: { index: 1, id: "c2", name: "now" } },
      { tool_call_partial: { index: 0, args: ',"b":2}' } },
    ]);
    expect(end).toEqual({
      kind: "llm.call.response",
      org_id: "org_a",
      session_id: "s1",
      payload: {
        text: "It is ",
        tool_calls: [
          { id: "c1", name: "add", args: { a: 1, b: 2 } },
          { id: "c2", name: "now", args: {} },
        ],
        usage: {
          input_other: 5,
          input_cache_read: 3,
          input_cache_creation: 2,
          output: 7,
          input: 10,
          total: 17,
        },
        stop_reason: "tool_use",
        model: "m1-2026",
        request_id: "evt_1",
      },
    });
    expect(bus.emitted.at(-1)).toBe(end);
  },
);

verifies("llm.provider", "a failure is one typed error that says whether it is worth a retry", async () => {
  const thrown: unknown[] = [
    new LlmCallError({ kind: "timeout", message: "late" }),
    Object.assign(new Error("429 slow down"), {
      status: 429,
      headers: new Headers({ "retry-after": "7" }),
    }),
    Object.assign(new Error("400 no"), { status: 400, headers: new Headers() }),
    new TypeError("fetch failed", { cause: Object.assign(new Error("x"), { code: "ECONNREFUSED" }) }),
    new Error("a bug"),
  ];
  const expected = [
    { error: "late", kind: "timeout", retryable: true },
    { error: "429 slow down", kind: "status", status_code: 429, retry_after_s: 7, retryable: true },
    { error: "400 no", kind: "status", status_code: 400, retryable: false },
    { error: "fetch failed", kind: "connection", retryable: true },
    { error: "a bug", kind: "other", retryable: false },
    { error: "The model gave neither text nor a tool call.", kind: "empty", retryable: true },
  ];
  const { bus } = busOf(() => {
    const error = thrown.shift();
    return error === undefined
      ? parts({ type: "usage", usage: { output: 0 } }, { type: "thinking", text: "…" })
      : failing(error);
  });
  for (const payload of expected) {
    const end = await bus.end();
    const { request_id: _, ...rest } = end.payload;
    expect(end.kind).toBe("llm.call.error");
    expect(rest).toEqual(payload);
  }
});

test("a failure after the first delta comes after it", async () => {
  const { bus } = busOf(async function* () {
    yield { type: "content", text: "half " };
    throw new LlmCallError({ kind: "connection", message: "gone" });
  });
  await bus.ask().handled;
  expect(bus.emitted.map(({ kind }) => kind)).toEqual(["llm.call.delta", "llm.call.error"]);
});

test("the provider's verdict decides whether a retryable error is retried", async () => {
  const asked: unknown[] = [];
  const { bus } = busOf(() => failing(new LlmCallError({ kind: "connection", message: "gone" })), {
    onRetryableError(failure, attempt) {
      asked.push([failure.kind, attempt]);
      return attempt < 2;
    },
  });
  expect((await bus.end({ attempt: 1 })).payload.retryable).toBe(true);
  expect((await bus.end({ attempt: 2 })).payload.retryable).toBe(false);
  expect(asked).toEqual([
    ["connection", 1],
    ["connection", 2],
  ]);
});

test("arguments that are no JSON object fail the call and are worth a retry", async () => {
  for (const args of ['{"a":', "[1]", '"text"']) {
    const { bus } = busOf(() => parts({ type: "tool_call", index: 0, id: "c", name: "add", args }));
    const { payload } = await bus.end();
    expect(payload).toMatchObject({ kind: "other", retryable: true, error: expect.stringMatching(/add/) });
  }
});

test("calls get ids that no other call of the conversation has", async () => {
  const { bus } = busOf(() =>
    parts(
      { type: "tool_call", index: 0, id: "call_0", name: "a" },
      { type: "tool_call", index: 1, id: "call_0", name: "b" },
      { type: "tool_call", index: 2, name: "c" },
    ),
  );
  const messages = [
    { role: "user", content: "go" },
    { role: "assistant", content: "", tool_calls: [{ id: "call_0", name: "a", args: {} }] },
    { role: "tool", tool_call_id: "call_0", content: "ok" },
  ];
  const { payload } = await bus.end({ messages });
  const ids = (payload.tool_calls as { id: string }[]).map(({ id }) => id);
  expect(ids).toEqual(["call_0_2", "call_0_3", "call_evt_1_2"]);
});

test("no secret of the instance leaves in an error", async () => {
  const secret = "sk-live-1234567890";
  const { bus } = busOf((_, { config }) =>
    failing(
      new Error(`bad key ${config.api_key as string} at http://me:pw@host/ (${config.region as string})`),
    ),
  );
  bus.instances.org_a = [instanceOf("llm-test", { api_key: secret, region: "eu-1" })];
  const { payload } = await bus.end();
  expect(payload.error).toBe("bad key **** at http://****@host/ (eu-1)");
  expect(JSON.stringify(bus.emitted)).not.toContain(secret);
});

test("a request for another plugin's instance, or for none, is not answered", async () => {
  const { bus, built } = busOf(() => parts({ type: "content", text: "mine" }));
  bus.instances.org_a!.push(instanceOf("llm-other", {}, "theirs"));
  await bus.ask({ provider: "theirs" }).handled;
  await bus.ask({ provider: "nobody" }).handled;
  expect(bus.emitted).toEqual([]);
  expect(built).toEqual([]);
});

verifies("llm.instances", "a write reloads only the instance that it changed, in its own org", async () => {
  const { bus, built } = busOf((_, { id, config }) =>
    parts({ type: "content", text: `${id} ${config.model as string}` }),
  );
  const write = (id: string, model: string) => instanceOf("llm-test", { model }, id);
  bus.instances.org_a = [write("one", "v1"), write("two", "v1")];
  bus.instances.org_b = [write("one", "b1")];
  const say = async (provider: string, org_id = "org_a") =>
    (await bus.end({ provider, model: "" }, { org_id })).payload.text;
  expect([await say("one"), await say("two"), await say("one", "org_b"), await say("one")]).toEqual([
    "one v1",
    "two v1",
    "one b1",
    "one v1",
  ]);
  expect(built).toEqual(["one", "two", "one"]);

  bus.instances.org_a = [write("one", "v2"), { ...write("two", "v1"), label: "renamed" }];
  for (const key of ["providers.one.model", "providers.two.label", "plugin.llm_test.x", "provider"]) {
    const hint = key.slice(0, key.lastIndexOf(".") + 1);
    await bus.send("config.updated", { key, prefix_match_hint: hint }, { session_id: "kernel" }).handled;
  }
  expect([await say("one"), await say("two"), await say("one", "org_b")]).toEqual([
    "one v2",
    "two v1",
    "one b1",
  ]);
  expect(built).toEqual(["one", "two", "one", "one"]);

  bus.instances.org_a = [write("one", "v2")];
  await bus.send("config.updated", { key: "providers.two.plugin", prefix_match_hint: "providers.two." })
    .handled;
  await bus.ask({ provider: "two" }).handled;
  expect(built).toHaveLength(4);
});

test("a write that is not announced yet counts already", async () => {
  const { bus } = busOf((_, { config }) => parts({ type: "content", text: config.model as string }));
  for (const model of ["v1", "v2"]) {
    bus.instances.org_a = [instanceOf("llm-test", { model })];
    expect((await bus.end()).payload.text).toBe(model);
  }
});

verifies(
  "llm.instances",
  "a running call keeps what it began with while its instance is reloaded",
  async () => {
    const gate = Promise.withResolvers<void>();
    const { bus, built } = busOf(async function* (_, { config }) {
      yield { type: "content", text: `${config.model as string} ` };
      if (config.model === "v1") await gate.promise;
      yield { type: "content", text: "done" };
    });
    bus.instances.org_a = [instanceOf("llm-test", { model: "v1" })];
    const old = bus.ask();
    await bus.until(() => bus.emitted.length > 0);
    bus.instances.org_a = [instanceOf("llm-test", { model: "v2" })];
    await bus.send("config.updated", { key: "providers.main.model", prefix_match_hint: "providers.main." })
      .handled;
    expect((await bus.end()).payload.text).toBe("v2 done");
    gate.resolve();
    await old.handled;
    expect(bus.of(old.id).at(-1)?.payload.text).toBe("v1 done");
    expect(built).toHaveLength(2);
  },
);

test("an interrupt ends the session's calls without an answer, and no other session's", async () => {
  const signals: GenerateRequest["signal"][] = [];
  const { bus, plugin } = busOf((request) => {
    signals.push(request.signal);
    return stuck(request);
  });
  const [first, second] = [bus.ask(), bus.ask()];
  const other = bus.ask({}, { session_id: "s2" });
  const foreign = bus.ask({}, { org_id: "org_b" });
  await foreign.handled;
  await bus.until(() => bus.emitted.length === 3);
  await bus.send("user.interrupt", {}).handled;
  await Promise.all([first.handled, second.handled]);
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, false]);
  expect(bus.emitted.every(({ kind }) => kind === "llm.call.delta")).toBe(true);
  await plugin.onUnload?.(bus.context());
  await other.handled;
});

test("an interrupt right after the request stops it before it starts", async () => {
  let started = false;
  const { bus } = busOf((request) => {
    started = request.signal.aborted === false;
    return stuck(request);
  });
  const call = bus.ask();
  await bus.send("user.interrupt", {}).handled;
  await call.handled;
  expect(bus.emitted).toEqual([]);
  expect(started).toBe(false);
});

test("what still waits for a slow bus is not said after the interrupt", async () => {
  const gate = Promise.withResolvers<void>();
  const { bus } = busOf(async function* (request) {
    for (let n = 0; n < 3; n++) {
      yield { type: "content", text: `${n}` };
      await new Promise((resolve) => setImmediate(resolve));
    }
    yield* stuck(request);
  });
  const sending = Promise.withResolvers<void>();
  bus.slow = () => {
    sending.resolve();
    return gate.promise;
  };
  const call = bus.ask();
  await sending.promise;
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  await bus.send("user.interrupt", {}).handled;
  gate.resolve();
  await call.handled;
  expect(bus.deltas()).toEqual([{ content: "0" }]);
});

test("unloading says of every call that it was cut off", async () => {
  const { bus, plugin } = busOf(stuck);
  const call = bus.ask();
  await bus.until(() => bus.emitted.length === 1);
  await plugin.onUnload?.(bus.context());
  await plugin.onUnload?.(bus.context());
  await call.handled;
  expect(bus.of(call.id).at(-1)).toMatchObject({ kind: "llm.call.error", payload: { kind: "connection" } });
});

test("a model that falls silent times out after the instance's timeout_s", async () => {
  const { bus } = busOf(stuck);
  bus.instances.org_a = [instanceOf("llm-test", { timeout_s: 0.02 })];
  const { payload } = await bus.end();
  expect(payload).toMatchObject({ kind: "timeout", retryable: true });
});

test("a slow answer is not cut off while its pieces keep coming", async () => {
  const { bus } = busOf(async function* () {
    for (let piece = 0; piece < 5; piece++) {
      yield { type: "content", text: "." };
      await new Promise((resolve) => setTimeout(resolve, 600));
    }
  });
  bus.instances.org_a = [instanceOf("llm-test", { timeout_s: 1 })];
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const call = bus.ask();
    await vi.advanceTimersByTimeAsync(4_000);
    await call.handled;
    expect(bus.of(call.id).at(-1)?.payload.text).toBe(".....");
  } finally {
    vi.useRealTimers();
  }
});

test("an answer that drips for ever ends when the loop no longer waits for it", async () => {
  const { bus } = busOf(async function* (request) {
    while (!request.signal.aborted) {
      yield { type: "content", text: "." };
      await new Promise((resolve) => setTimeout(resolve, 50_000));
    }
  });
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const call = bus.ask();
    await vi.advanceTimersByTimeAsync(610_000);
    await call.handled;
    expect(bus.of(call.id).at(-1)).toMatchObject({ kind: "llm.call.error", payload: { kind: "timeout" } });
    expect(vi.getTimerCount()).toBeLessThan(2);
  } finally {
    vi.useRealTimers();
  }
});

test("the plugin's own name is an instance where none has it", async () => {
  const { bus } = busOf((_, { id }) => parts({ type: "content", text: `I am ${id}` }));
  bus.instances.org_a = [];
  expect((await bus.end({ provider: "llm-test" })).payload.text).toBe("I am llm-test");
  bus.instances.org_a = [instanceOf("llm-other", {}, "llm-test")];
  await bus.ask({ provider: "llm-test" }).handled;
  expect(bus.emitted.filter(({ kind }) => kind === "llm.call.response")).toHaveLength(1);
});

test("a slow bus gets fewer and larger deltas, with nothing lost or out of order", async () => {
  const words = Array.from({ length: 500 }, (_, at) => `w${at} `);
  const { bus } = busOf(async function* () {
    for (const text of words) yield { type: "content", text };
    yield { type: "thinking", text: "a" };
    yield { type: "thinking", text: "b" };
    yield { type: "tool_call", index: 0, id: "c", name: "t", args: "{" };
    yield { type: "tool_call", index: 0, args: "}" };
  });
  bus.slow = () => new Promise((resolve) => setImmediate(resolve));
  const end = await bus.end();
  const deltas = bus.deltas();
  expect(deltas.length).toBeLessThan(50);
  expect(deltas.map(({ content = "" }) => content).join("")).toBe(words.join(""));
  expect(deltas.slice(-2)).toEqual([
    { thinking: "ab" },
    { tool_call_partial: { index: 0, id: "c", name: "t", args: "{}" } },
  ]);
  expect(end.payload.text).toBe(words.join(""));
});

test("a stuck bus holds the stream instead of filling memory", async () => {
  const gate = Promise.withResolvers<void>();
  let made = 0;
  const { bus } = busOf(async function* () {
    for (; made < 100; made++) yield { type: "content", text: "x".repeat(16 * 1024) };
  });
  bus.slow = () => gate.promise;
  const call = bus.ask();
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  expect(made).toBeLessThan(30);
  gate.resolve();
  await call.handled;
  expect(String(bus.of(call.id).at(-1)?.payload.text)).toHaveLength(100 * 16 * 1024);
});

test("health is the worst of the instances, told without a call", async () => {
  const { bus, plugin } = busOf(() => parts(), {
    healthCheck: ({ config }) =>
      config.api_key === undefined ? { status: "degraded", message: "no api_key" } : { status: "ok" },
  });
  expect(await plugin.healthCheck?.(bus.context())).toMatchObject({
    status: "degraded",
    summary: "main: no api_key",
  });
  bus.instances.org_a = [instanceOf("llm-test", { api_key: "k" })];
  expect(await plugin.healthCheck?.(bus.context())).toMatchObject({
    status: "ok",
    summary: "1 instance ready",
  });
});

async function* failing(error: unknown): AsyncGenerator<LlmPart, void, undefined> {
  yield* [];
  throw error;
}
