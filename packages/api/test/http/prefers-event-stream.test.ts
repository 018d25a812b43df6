import { expect, test } from "vitest";
import { prefersEventStream } from "../../src/http/prefers-event-stream.ts";

test.each([
  ["text/event-stream", true],
  ["text/event-stream, application/json", true],
  ["application/json;q=0.5, Text/Event-Stream;q=1", true],
  ["text/event-stream, */*;q=0.1", true],
  ["application/json, text/event-stream", false],
  ["text/event-stream;q=0.5, application/json", false],
  ["text/event-stream;q=0", false],
  ["text/event-stream;q=x", false],
  ["application/json", false],
  ["*/*", false],
  ["x-text/event-stream", false],
  ["", false],
  [undefined, false],
])("decides between a stream and JSON by quality and order: %s", (accept, expected) => {
  expect(prefersEventStream(accept)).toBe(expected);
});
