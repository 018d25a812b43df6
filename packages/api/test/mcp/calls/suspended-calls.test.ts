import { expect, test } from "vitest";
import { SuspendedCalls } from "../../../src/mcp/calls/suspended-calls.ts";
import type { UpstreamCall } from "../../../src/mcp/calls/upstream-call.ts";
import { Questions } from "../../../src/mcp/session/questions.ts";
import { userNamed as caller } from "../../support/callers.ts";

const request = (params: object) => ({
  kind: "request" as const,
  id: 1,
  method: "tools/call",
  params: params as never,
});
const CALL_PARAMS = { name: "ask", arguments: { a: 1 } };

function createUpstreamCall(): UpstreamCall {
  const questions = new Questions({ elicitation: {} });
  return { questions, result: new Promise(() => undefined) } as unknown as UpstreamCall;
}

const timers: (() => void)[] = [];
const clock = {
  now: () => 0,
  monotonic: () => 0,
  after: (_ms: number, run: () => void) => {
    timers.push(run);
    return { stop() {} };
  },
};

test("accepts a requestState once, only for its caller and its request", () => {
  const suspended = new SuspendedCalls(clock);
  const suspended_call = createUpstreamCall();
  const state = suspended.suspend(caller("a"), request(CALL_PARAMS), suspended_call)!;
  const again = { ...CALL_PARAMS, requestState: state, inputResponses: { x: {} }, _meta: {} };
  const refused = { code: -32602 };
  const resume =
    (actor: string, params: object, request_state: unknown = state) =>
    () =>
      suspended.resume(caller(actor), request(params), request_state);
  expect(resume("b", again)).toThrow(expect.objectContaining(refused));
  expect(resume("a", { ...again, arguments: { a: 2 } })).toThrow(expect.objectContaining(refused));
  expect(resume("a", again, `${state}x`)).toThrow(expect.objectContaining(refused));
  expect(resume("a", again, 7)).toThrow(expect.objectContaining(refused));
  expect(resume("a", again)()).toBe(suspended_call);
  expect(resume("a", again)).toThrow(expect.objectContaining(refused));
});

test("declines pending questions when the client does not return in time", async () => {
  const suspended = new SuspendedCalls(clock);
  const suspended_call = createUpstreamCall();
  const answer = suspended_call.questions.answerRequest("elicitation/create", {});
  suspended.suspend(caller("a"), request(CALL_PARAMS), suspended_call);
  timers.at(-1)!();
  expect(await answer).toEqual({ action: "decline" });
});

test("limits the suspended calls of one caller", () => {
  const suspended = new SuspendedCalls(clock);
  const suspend = (actor: string) =>
    suspended.suspend(caller(actor), request(CALL_PARAMS), createUpstreamCall());
  for (let n = 0; n < 100; n++) expect(suspend("a")).not.toBeNull();
  expect(suspend("a")).toBeNull();
  expect(suspend("b")).not.toBeNull();
});
