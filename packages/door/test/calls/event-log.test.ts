import { INVOCATION_LIMITS, type InvocationEvent } from "@backplane/contract";
import { expect, test } from "vitest";
import { EventLog } from "../../src/calls/event-log.ts";

function createEventLog() {
  const events: InvocationEvent["event"][] = [];
  const store = { appendEvents: (_id: string, [first]: InvocationEvent[]) => void events.push(first!.event) };
  return { events, log: new EventLog("inv_1", store as never, { now: () => 0 } as never, 0) };
}

test("bounds events in number and size and reports the dropped ones once", () => {
  const many = createEventLog();
  for (let n = 0; n < INVOCATION_LIMITS.events_kept + 5; n++) many.log.write({ type: "log", data: n });
  many.log.close();
  many.log.close();
  expect(many.events).toHaveLength(INVOCATION_LIMITS.events_kept + 1);
  expect(many.events.at(-1)).toEqual({ type: "events_dropped", dropped: 5 });
  const large = createEventLog();
  const data = "x".repeat(1024 * 1024);
  for (let n = 0; n < 40; n++) large.log.write({ type: "log", data });
  large.log.write({ type: "log", data: "small" });
  large.log.close();
  // 15 events of 1 MiB fit, then the small event and the number of dropped events follow.
  expect(large.events).toHaveLength(15 + 1 + 1);
  expect(large.events.at(-1)).toEqual({ type: "events_dropped", dropped: 25 });
});
