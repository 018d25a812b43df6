import { expect, test } from "vitest";
import { Parked } from "../../src/mcp/parked.ts";
import { Questions } from "../../src/mcp/questions.ts";
import type { Work } from "../../src/mcp/work.ts";
import { userCalled as caller } from "../callers.ts";

const request = (params: object) => ({
  kind: "request" as const,
  id: 1,
  method: "tools/call",
  params: params as never,
});
const ASKED = { name: "ask", arguments: { a: 1 } };

function work(): Work {
  const questions = new Questions({ elicitation: {} });
  return { questions, result: new Promise(() => undefined) } as unknown as Work;
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

test("a state is good once, for its caller and its request alone", () => {
  const parked = new Parked(clock);
  const own = work();
  const state = parked.park(caller("a"), request(ASKED), own)!;
  const again = { ...ASKED, requestState: state, inputResponses: { x: {} }, _meta: {} };
  const refused = { code: -32602 };
  const take =
    (actor: string, params: object, given: unknown = state) =>
    () =>
      parked.take(caller(actor), request(params), given);
  expect(take("b", again)).toThrow(expect.objectContaining(refused));
  expect(take("a", { ...again, arguments: { a: 2 } })).toThrow(expect.objectContaining(refused));
  expect(take("a", again, `${state}x`)).toThrow(expect.objectContaining(refused));
  expect(take("a", again, 7)).toThrow(expect.objectContaining(refused));
  expect(take("a", again)()).toBe(own);
  expect(take("a", again)).toThrow(expect.objectContaining(refused));
});

test("a client that never comes back has its questions answered for it", async () => {
  const parked = new Parked(clock);
  const own = work();
  const asked = own.questions.ask("elicitation/create", {});
  parked.park(caller("a"), request(ASKED), own);
  timers.at(-1)!();
  expect(await asked).toEqual({ action: "decline" });
});

test("one caller leaves room for the others", () => {
  const parked = new Parked(clock);
  const park = (actor: string) => parked.park(caller(actor), request(ASKED), work());
  for (let n = 0; n < 100; n++) expect(park("a")).not.toBeNull();
  expect(park("a")).toBeNull();
  expect(park("b")).not.toBeNull();
});
