import { BackplaneError, LLM_LIMITS } from "@backplane/contract";
import type { KernelPort } from "@backplane/session";
import { scope } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { ModelCalls, toModelAnswer } from "../../src/models/call-model.ts";

type Answer = { kind: string; payload: object; delta?: string };
/** How the bus ends a request whose handler timed out or threw. */
type BusFailure = { code: "timeout" | "plugin_failed"; message: string };
type Reply = Answer | BusFailure;

/** A provider that answers each attempt with the next reply, and a clock whose pauses are only recorded. */
function createCalls(replies: Reply[]) {
  const pauses: number[] = [];
  const attempts: unknown[] = [];
  let delta = (_event: { payload: object }) => {};
  const port = {
    subscribe(kind: string, listener: typeof delta) {
      if (kind === "llm.call.delta") delta = listener;
      return () => {};
    },
    async request(
      _kind: string,
      payload: { attempt: number },
      options: { signal: AbortSignal; onSent(event: { id: string }): void },
    ) {
      const id = `evt_${attempts.push(payload.attempt)}`;
      options.onSent({ id });
      const reply = replies.shift()!;
      if ("code" in reply) throw new BackplaneError(reply.code, reply.message);
      options.signal.throwIfAborted();
      if (reply.delta !== undefined) delta({ payload: { request_id: id, content: reply.delta } });
      return reply;
    },
  };
  const clock = {
    after(ms: number, run: () => void) {
      pauses.push(ms);
      queueMicrotask(run);
      return { stop() {} };
    },
  };
  const calls = new ModelCalls(
    port as unknown as KernelPort,
    clock as never,
    async () => "provider",
    async (_scope, messages) => [...messages],
  );
  const call = () =>
    calls.call(
      { provider: "p", model: "m", messages: [], tools: [], params: {} },
      {
        to: { session_id: "s1", scope },
        signal: new AbortController().signal,
        timeout_ms: 1_000,
        retries: 2,
      },
    );
  return { call, attempts, pauses };
}

const failure = (more: object = {}): Answer => ({
  kind: "llm.call.error",
  payload: { error: "busy", kind: "connection", ...more },
});
const ANSWER: Reply = { kind: "llm.call.response", payload: { text: "hi" } };

test("retries a few times, with increasing pauses", async () => {
  const { call, attempts, pauses } = createCalls([failure(), failure(), ANSWER]);
  expect((await call()).text).toBe("hi");
  expect(attempts).toEqual([1, 2, 3]);
  expect(pauses).toEqual([LLM_LIMITS.backoff_ms, LLM_LIMITS.backoff_ms * 2]);
  const failing = createCalls([failure(), failure(), failure(), ANSWER]);
  await expect(failing.call()).rejects.toMatchObject({ code: "llm.failed", message: "p: busy" });
  expect(failing.attempts).toEqual([1, 2, 3]);
});

test("does not retry after the first delta or after an error that the provider marks as not retryable", async () => {
  const with_delta = createCalls([{ ...failure(), delta: "half" }, ANSWER]);
  await expect(with_delta.call()).rejects.toMatchObject({ code: "llm.failed" });
  const not_retryable = createCalls([failure({ retryable: false }), ANSWER]);
  await expect(not_retryable.call()).rejects.toMatchObject({ code: "llm.failed" });
  const retryable = createCalls([failure({ kind: "other", retryable: true }), ANSWER]);
  expect((await retryable.call()).text).toBe("hi");
});

test("reports a timeout when the deadline of the handler passes before that of the call", async () => {
  const late: Reply = { code: "timeout", message: "took longer" };
  const { call, attempts } = createCalls([late, late, late]);
  await expect(call()).rejects.toMatchObject({
    message: "p: the provider did not answer in time",
    details: { kind: "timeout" },
  });
  expect(attempts).toHaveLength(3);
});

test("does not retry a provider that throws, because three failures in a row unload it", async () => {
  const { call, attempts } = createCalls([
    { code: "plugin_failed", message: "provider failed: no key" },
    ANSWER,
  ]);
  await expect(call()).rejects.toMatchObject({
    message: "p: provider failed: no key",
    details: { kind: "other" },
  });
  expect(attempts).toEqual([1]);
});

test("waits as long as the vendor requests, up to a limit", async () => {
  const { call, pauses } = createCalls([
    failure({ retry_after_s: 3 }),
    failure({ retry_after_s: 3_600 }),
    ANSWER,
  ]);
  await call();
  expect(pauses).toEqual([3_000, LLM_LIMITS.max_backoff_ms]);
});

test("gives every tool call of an answer its own id", () => {
  const calls = ["a", "a", "", ""].map((id) => ({ id, name: "add", args: {} }));
  const { tool_calls } = toModelAnswer("step", { payload: { tool_calls: calls } as never });
  expect(tool_calls.map(({ id }) => id)).toEqual(["a", "a_1", "call_2", "call_3"]);
});
