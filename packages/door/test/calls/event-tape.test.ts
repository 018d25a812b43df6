import { INVOCATION_LIMITS, type InvocationEvent } from "@backplane/contract";
import { expect, test } from "vitest";
import { EventTape } from "../../src/calls/event-tape.ts";

function tape() {
  const events: InvocationEvent["event"][] = [];
  const store = { appendEvents: (_id: string, [first]: InvocationEvent[]) => void events.push(first!.event) };
  return { events, tape: new EventTape("inv_1", store as never, { now: () => 0 } as never, 0) };
}

test("bounds events in number and size and reports the dropped ones once", () => {
  const many = tape();
  for (let n = 0; n < INVOCATION_LIMITS.events_kept + 5; n++) many.tape.write({ type: "log", data: n });
  many.tape.close();
  many.tape.close();
  expect(many.events).toHaveLength(INVOCATION_LIMITS.events_kept + 1);
  expect(many.events.at(-1)).toEqual({ type: "events_dropped", dropped: 5 });
  const large = tape();
  const data = "x".repeat(1024 * 1024);
  for (let n = 0; n < 40; n++) large.tape.write({ type: "log", data });
  large.tape.write({ type: "log", data: "small" });
  large.tape.close();
  expect(large.events).toHaveLength(15 + 1 + 1);
  expect(large.events.at(-1)).toEqual({ type: "events_dropped", dropped: 25 });
});
