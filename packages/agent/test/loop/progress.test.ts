import type { Entry, JsonObject } from "@backplane/contract";
import { expect, test } from "vitest";
import { readTurnProgress } from "../../src/loop/progress.ts";

const FIRST_ENTRY_ID = 10;

/** Makes entries in the given order, all with the same date. `old` entries precede the turn. */
function tape(...lines: [kind: Entry["kind"], payload: JsonObject, step?: string][]): Entry[] {
  return lines.map(([kind, payload, step], n) => ({
    id: payload.old === true ? n + 1 : FIRST_ENTRY_ID + n,
    kind,
    payload,
    meta: (step === undefined ? {} : { step }) as JsonObject,
    date: "2026-11-15T10:00:00.000Z",
  }));
}

const messageEntry = (role: string) => ["message", { role, content: "x" }] as const;
const callEntry = (id: string, step: string) => ["tool_call", { id, name: "t", args: {} }, step] as const;
const resultEntry = (id: string) =>
  ["tool_result", { tool_call_id: id, ok: true, envelope: { brief: id } }] as const;
const requestEntry = ["event", { name: "llm.call.request", data: {} }] as const;
const responseEntry = (request_id: string, ...ids: string[]) =>
  [
    "event",
    {
      name: "llm.call.response",
      data: {
        request_id,
        text: request_id,
        usage: { input_other: 1, output: 2 },
        tool_calls: ids.map((id) => ({ id, name: "t", args: {} })),
      },
    },
  ] as const;

const progressAfter = (...lines: (readonly [Entry["kind"], JsonObject, string?])[]) =>
  readTurnProgress(tape(...(lines as [Entry["kind"], JsonObject, string?][])), FIRST_ENTRY_ID);

test("starts from the beginning when the model had not answered yet", () => {
  expect(progressAfter(messageEntry("user"))).toMatchObject({ answer: null, open: [], usage: [] });
  expect(progressAfter(messageEntry("user"), requestEntry)).toMatchObject({
    answer: null,
    has_new_message: false,
  });
});

test("returns the last answer with the results of its calls, and lists only calls that were made as open", () => {
  const progress = progressAfter(
    messageEntry("user"),
    requestEntry,
    responseEntry("q1", "a", "b", "c"),
    callEntry("a", "q1"),
    callEntry("b", "q1"),
    resultEntry("a"),
  );
  expect(progress.answer).toMatchObject({ step: "q1", text: "q1" });
  expect(progress.answer?.tool_calls.map(({ id }) => id)).toEqual(["a", "b", "c"]);
  expect(progress.open).toEqual(["b"]);
  expect([...progress.results.keys()]).toEqual(["a"]);
  expect(progress.usage).toHaveLength(1);
});

test("treats the refusal of a call as its result", () => {
  const refused = [
    "event",
    { name: "tool.error", data: { id: "a", kind: "rejected", brief: "no" } },
  ] as const;
  const { open, results } = progressAfter(
    messageEntry("user"),
    responseEntry("q1", "a"),
    callEntry("a", "q1"),
    refused,
  );
  expect({ open, result: results.get("a") }).toEqual({ open: [], result: { ok: false, brief: "no" } });
});

test("returns no answer if open calls belong to an answer that was not kept", () => {
  const progress = progressAfter(
    messageEntry("user"),
    responseEntry("q1", "a"),
    callEntry("a", "q1"),
    resultEntry("a"),
    callEntry("b", "q2"),
  );
  expect(progress).toMatchObject({ answer: null, open: ["b"] });
  expect(
    progressAfter(messageEntry("user"), callEntry("a", "q0"), responseEntry("q1", "b")).answer,
  ).toMatchObject({
    step: "q1",
  });
});

test("ignores an answer that became a message or that is older than the turn", () => {
  expect(
    progressAfter(messageEntry("user"), responseEntry("q1"), messageEntry("assistant"), messageEntry("user"))
      .answer,
  ).toBeNull();
  const [kind, payload] = responseEntry("q1");
  const progress = progressAfter([kind, { ...payload, old: true }], messageEntry("user"));
  expect(progress).toMatchObject({ answer: null, usage: [] });
  // A call id of an earlier turn can be open again.
  const again = progressAfter(
    messageEntry("user"),
    callEntry("a", "q0"),
    resultEntry("a"),
    messageEntry("assistant"),
    messageEntry("user"),
    callEntry("a", "q1"),
  );
  expect(again.open).toEqual(["a"]);
});

test("ignores an earlier turn's answer that a compaction has copied past the start of the turn", () => {
  const entries = tape(messageEntry("user") as never, responseEntry("q1") as never).map((entry) => ({
    ...entry,
    meta: { copy_of: entry.id - FIRST_ENTRY_ID + 1 },
  }));
  expect(readTurnProgress(entries, FIRST_ENTRY_ID)).toMatchObject({ answer: null, usage: [] });
});

test("marks a message after the last model call as unanswered", () => {
  expect(
    progressAfter(messageEntry("user"), requestEntry, responseEntry("q1"), messageEntry("user"))
      .has_new_message,
  ).toBe(true);
  expect(
    progressAfter(messageEntry("user"), requestEntry, messageEntry("user"), responseEntry("q1"))
      .has_new_message,
  ).toBe(true);
  expect(
    progressAfter(messageEntry("user"), messageEntry("user"), requestEntry, responseEntry("q1"))
      .has_new_message,
  ).toBe(false);
});

test("does not reuse an earlier result when a model numbers its calls from zero", () => {
  const again = progressAfter(
    messageEntry("user"),
    responseEntry("q1", "call_0"),
    callEntry("call_0", "q1"),
    resultEntry("call_0"),
    requestEntry,
    responseEntry("q2", "call_0"),
  );
  expect(again.answer).toMatchObject({ step: "q2" });
  expect({ open: again.open, results: [...again.results.keys()] }).toEqual({ open: [], results: [] });
});
