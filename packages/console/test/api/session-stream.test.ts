import { expect, test } from "vitest";
import { addUpdate, type LiveTurn } from "../../src/api/session-stream.ts";

test("joins the pieces of an answer, and replaces them with the whole text after a reconnect", () => {
  const delta = (content: string, more: object = {}) => ({
    event: { kind: "assistant.message.delta", payload: { content, iteration: 1, ...more } } as never,
    entry_id: null,
  });
  const start: LiveTurn = { answer: null, thoughts: [], progress: {} };
  const joined = [delta("one"), delta(" two")].reduce((turn, update) => addUpdate(turn, update, 4), start);
  expect(joined.answer?.text).toBe("one two");
  const whole = addUpdate(joined, delta("one two three", { catch_up: true }), 4);
  expect(whole.answer?.text).toBe("one two three");
  const done = { event: { kind: "assistant.message.done", payload: {} } as never, entry_id: 5 };
  const stored = addUpdate(whole, done, 5);
  expect(stored.answer?.stored_as).toBe(5);
  expect(addUpdate(stored, delta("next"), 5).answer?.text).toBe("next");
});

test("joins the pieces of the thinking, and replaces them with the whole text after a reconnect", () => {
  const delta = (request_id: string, thinking: string, more: object = {}) => ({
    event: { kind: "llm.call.delta", payload: { request_id, thinking, ...more } } as never,
    entry_id: null,
  });
  const start: LiveTurn = { answer: null, thoughts: [], progress: {} };
  const turn = [
    delta("a", "one"),
    delta("a", " two"),
    delta("a", "one two three", { catch_up: true }),
    delta("b", "four", { catch_up: true }),
    delta("b", " five"),
  ].reduce((current, update) => addUpdate(current, update, 4), start);
  expect(turn.thoughts.map(({ text }) => text)).toEqual(["one two three", "four five"]);
});

test("joins the output of a running tool and follows a compaction", () => {
  const update = (kind: string, payload: object) => ({ event: { kind, payload } as never, entry_id: null });
  const start: LiveTurn = { answer: null, thoughts: [], progress: {} };
  const running = [
    update("x.loop.tool.progress", { id: "c1", status: "half", output: "one " }),
    update("x.loop.tool.progress", { id: "c1", output: "two" }),
    update("session.compaction.started", {}),
  ].reduce((turn, each) => addUpdate(turn, each, 1), start);
  expect(running.progress.c1).toEqual({ status: "half", output: "one two" });
  expect(running.compacting).toBe(true);
  const failed = addUpdate(running, update("session.compaction.failed", { error: "no model" }), 1);
  expect(failed).toMatchObject({ compacting: false, compaction_error: "no model" });
});
