/** How the parts and failures of a provider become events on the bus. */
import type { GenerateRequest } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { LlmCallError } from "../../src/kernel/index.ts";
import { createInstance } from "./llm-bus.ts";
import { createLlmBus, failing, parts } from "./scripted-llm.ts";

verifies(
  "llm.provider",
  "emits deltas in order, then one response with derived usage, all with the request's id",
  async () => {
    const requests: GenerateRequest[] = [];
    const { bus } = createLlmBus((request) => {
      requests.push(request);
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
    const end = await bus.call({ messages, tools, params: { temperature: 0 } });
    expect(requests[0]).toMatchObject({
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

verifies("llm.provider", "emits one typed error that states whether a retry is useful", async () => {
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
    {
      error: "The provider returned HTTP 429.",
      kind: "status",
      status_code: 429,
      retry_after_s: 7,
      retryable: true,
    },
    { error: "The provider returned HTTP 400.", kind: "status", status_code: 400, retryable: false },
    { error: "The connection to the provider failed.", kind: "connection", retryable: true },
    { error: "a bug", kind: "other", retryable: false },
    { error: "The model returned neither text nor a tool call.", kind: "empty", retryable: true },
  ];
  const { bus } = createLlmBus(() => {
    const error = thrown.shift();
    return error === undefined
      ? parts({ type: "usage", usage: { output: 0 } }, { type: "thinking", text: "…" })
      : failing(error);
  });
  for (const payload of expected) {
    const end = await bus.call();
    const { request_id: _, ...rest } = end.payload;
    expect(end.kind).toBe("llm.call.error");
    expect(rest).toEqual(payload);
  }
});

test("emits a failure after the deltas that preceded it", async () => {
  const { bus } = createLlmBus(async function* () {
    yield { type: "content", text: "half " };
    throw new LlmCallError({ kind: "connection", message: "gone" });
  });
  await bus.request().handled;
  expect(bus.emitted.map(({ kind }) => kind)).toEqual(["llm.call.delta", "llm.call.error"]);
});

test("lets the provider's onRetryableError decide whether an error is retryable", async () => {
  const decisions: unknown[] = [];
  const { bus } = createLlmBus(() => failing(new LlmCallError({ kind: "connection", message: "gone" })), {
    onRetryableError(failure, attempt) {
      decisions.push([failure.kind, attempt]);
      return attempt < 2;
    },
  });
  expect((await bus.call({ attempt: 1 })).payload.retryable).toBe(true);
  expect((await bus.call({ attempt: 2 })).payload.retryable).toBe(false);
  expect(decisions).toEqual([
    ["connection", 1],
    ["connection", 2],
  ]);
});

test("emits a retryable error for a tool call whose arguments are not a JSON object", async () => {
  for (const args of ['{"a":', "[1]", '"text"']) {
    const { bus } = createLlmBus(() => parts({ type: "tool_call", index: 0, id: "c", name: "add", args }));
    const { payload } = await bus.call();
    expect(payload).toMatchObject({ kind: "other", retryable: true, error: expect.stringMatching(/add/) });
  }
});

test("assigns call ids that are unique in the conversation", async () => {
  const { bus } = createLlmBus(() =>
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
  const { payload } = await bus.call({ messages });
  const ids = (payload.tool_calls as { id: string }[]).map(({ id }) => id);
  expect(ids).toEqual(["call_0_2", "call_0_3", "call_evt_1_2"]);
});

test("redacts every secret of the instance in errors", async () => {
  const secret = "sk-live-1234567890";
  const { bus } = createLlmBus((_, { config }) =>
    failing(
      new Error(`bad key ${config.api_key as string} at http://me:pw@host/ (${config.region as string})`),
    ),
  );
  bus.instances.org_a = [createInstance("llm-test", { api_key: secret, region: "eu-1" })];
  const { payload } = await bus.call();
  expect(payload.error).toBe("bad key **** at http://****@host/ (eu-1)");
  expect(JSON.stringify(bus.emitted)).not.toContain(secret);
});
