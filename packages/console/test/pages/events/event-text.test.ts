import type { SemanticEvent } from "@backplane/contract";
import { expect, test } from "vitest";
import { filterEvents, toJsonLines } from "../../../src/pages/events/event-text.ts";

test("filters events and exports them oldest first", () => {
  const event = (seq: number, type: string, session_id: string) =>
    ({ seq, type, session_id, summary: {} }) as unknown as SemanticEvent;
  const events = [event(3, "run.failed", "b"), event(2, "run.started", "a"), event(1, "run.started", "b")];
  expect(filterEvents(events, { session: "b", q: "STARTED" }).map(({ seq }) => seq)).toEqual([1]);
  expect(filterEvents(events, {})).toEqual(events);
  const lines = toJsonLines(events).trimEnd().split("\n");
  expect(lines.map((line) => (JSON.parse(line) as SemanticEvent).seq)).toEqual([1, 2, 3]);
});
