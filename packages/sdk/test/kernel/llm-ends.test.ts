/** Calls that end before their answer is complete, and a bus that is slower than the model. */
import type { GenerateRequest } from "@backplane/contract";
import { expect, test, vi } from "vitest";
import { createInstance } from "./llm-bus.ts";
import { createLlmBus, stuck } from "./scripted-llm.ts";

test("ends only the calls of the interrupted session, without an answer", async () => {
  const signals: GenerateRequest["signal"][] = [];
  const { bus, plugin } = createLlmBus((request) => {
    signals.push(request.signal);
    return stuck(request);
  });
  const [first, second] = [bus.request(), bus.request()];
  const other_session = bus.request({}, { session_id: "s2" });
  const other_org = bus.request({}, { org_id: "org_b" });
  await other_org.handled;
  await bus.until(() => bus.emitted.length === 3);
  await bus.send("user.interrupt", {}).handled;
  await Promise.all([first.handled, second.handled]);
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, false]);
  expect(bus.emitted.every(({ kind }) => kind === "llm.call.delta")).toBe(true);
  await plugin.onUnload?.(bus.context());
  await other_session.handled;
});

test("never starts a call that is interrupted right after its request", async () => {
  let started = false;
  const { bus } = createLlmBus((request) => {
    started = request.signal.aborted === false;
    return stuck(request);
  });
  const call = bus.request();
  await bus.send("user.interrupt", {}).handled;
  await call.handled;
  expect(bus.emitted).toEqual([]);
  expect(started).toBe(false);
});

test("drops the deltas that are queued for a slow bus when the call is interrupted", async () => {
  const gate = Promise.withResolvers<void>();
  const { bus } = createLlmBus(async function* (request) {
    for (let n = 0; n < 3; n++) {
      yield { type: "content", text: `${n}` };
      await new Promise((resolve) => setImmediate(resolve));
    }
    yield* stuck(request);
  });
  const sending = Promise.withResolvers<void>();
  bus.delay = () => {
    sending.resolve();
    return gate.promise;
  };
  const call = bus.request();
  await sending.promise;
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  await bus.send("user.interrupt", {}).handled;
  gate.resolve();
  await call.handled;
  expect(bus.deltas()).toEqual([{ content: "0" }]);
});

test("ends a call in flight with a connection error when the plugin is unloaded", async () => {
  const { bus, plugin } = createLlmBus(stuck);
  const call = bus.request();
  await bus.until(() => bus.emitted.length === 1);
  await plugin.onUnload?.(bus.context());
  await plugin.onUnload?.(bus.context());
  await call.handled;
  expect(bus.eventsOf(call.id).at(-1)).toMatchObject({
    kind: "llm.call.error",
    payload: { kind: "connection" },
  });
});

test("times out after timeout_s when the model sends nothing more", async () => {
  const { bus } = createLlmBus(stuck);
  bus.instances.org_a = [createInstance("llm-test", { timeout_s: 0.02 })];
  const { payload } = await bus.call();
  expect(payload).toMatchObject({ kind: "timeout", retryable: true });
});

test("keeps a slow answer running while its parts keep arriving", async () => {
  const { bus } = createLlmBus(async function* () {
    for (let piece = 0; piece < 5; piece++) {
      yield { type: "content", text: "." };
      await new Promise((resolve) => setTimeout(resolve, 600));
    }
  });
  bus.instances.org_a = [createInstance("llm-test", { timeout_s: 1 })];
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const call = bus.request();
    await vi.advanceTimersByTimeAsync(4_000);
    await call.handled;
    expect(bus.eventsOf(call.id).at(-1)?.payload.text).toBe(".....");
  } finally {
    vi.useRealTimers();
  }
});

test("ends an endless answer when the loop's deadline passes", async () => {
  const { bus } = createLlmBus(async function* (request) {
    while (!request.signal.aborted) {
      yield { type: "content", text: "." };
      await new Promise((resolve) => setTimeout(resolve, 50_000));
    }
  });
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const call = bus.request();
    await vi.advanceTimersByTimeAsync(610_000);
    await call.handled;
    expect(bus.eventsOf(call.id).at(-1)).toMatchObject({
      kind: "llm.call.error",
      payload: { kind: "timeout" },
    });
    expect(vi.getTimerCount()).toBeLessThan(2);
  } finally {
    vi.useRealTimers();
  }
});

test("merges deltas for a slow bus without loss and in order", async () => {
  const words = Array.from({ length: 500 }, (_, index) => `w${index} `);
  const { bus } = createLlmBus(async function* () {
    for (const text of words) yield { type: "content", text };
    yield { type: "thinking", text: "a" };
    yield { type: "thinking", text: "b" };
    yield { type: "tool_call", index: 0, id: "c", name: "t", args: "{" };
    yield { type: "tool_call", index: 0, args: "}" };
  });
  bus.delay = () => new Promise((resolve) => setImmediate(resolve));
  const end = await bus.call();
  const deltas = bus.deltas();
  expect(deltas.length).toBeLessThan(50);
  expect(deltas.map(({ content = "" }) => content).join("")).toBe(words.join(""));
  expect(deltas.slice(-2)).toEqual([
    { thinking: "ab" },
    { tool_call_partial: { index: 0, id: "c", name: "t", args: "{}" } },
  ]);
  expect(end.payload.text).toBe(words.join(""));
});

test("pauses the stream on a stuck bus instead of filling memory", async () => {
  const gate = Promise.withResolvers<void>();
  let streamed = 0;
  const { bus } = createLlmBus(async function* () {
    for (; streamed < 100; streamed++) yield { type: "content", text: "x".repeat(16 * 1024) };
  });
  bus.delay = () => gate.promise;
  const call = bus.request();
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  expect(streamed).toBeLessThan(30);
  gate.resolve();
  await call.handled;
  expect(String(bus.eventsOf(call.id).at(-1)?.payload.text)).toHaveLength(100 * 16 * 1024);
});
