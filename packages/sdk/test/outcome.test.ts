import { expect, test } from "vitest";
import { replyToThrow, toToolAnswer } from "../src/outcome.ts";

const plain = { is_error: false, retryable: false };

test("returns an empty answer for undefined and a value for null", () => {
  expect(toToolAnswer(undefined, false)).toEqual({ content: [], ...plain });
  expect(toToolAnswer(null, false)).toMatchObject({ structured_output: null, content: [{ text: "null" }] });
});

test("returns a string as structured output only if a schema requires it", () => {
  expect(toToolAnswer("hi", false)).toEqual({ content: [{ type: "text", text: "hi" }], ...plain });
  expect(toToolAnswer("hi", true)).toEqual({
    content: [{ type: "text", text: "hi" }],
    structured_output: "hi",
    ...plain,
  });
});

test("treats a value that only resembles a complete answer as a value", () => {
  for (const value of [
    { content: "a page" },
    { content: ["a", "b"] },
    { content: [{ type: "text", text: "x" }], author: "me" },
  ]) {
    expect(toToolAnswer(value, true)).toMatchObject({ structured_output: value });
  }
});

test("refuses a value that is not JSON", () => {
  expect(() => toToolAnswer(() => 1, false)).toThrow(/must return JSON, not a function/);
  expect(() => toToolAnswer({ n: 1n }, false)).toThrow();
});

test("treats an error after a cancel as its acknowledgement, and any other error as a failure", () => {
  expect(replyToThrow(new Error("aborted"), true).status).toBe("cancelled");
  expect(replyToThrow(new Error("a bug"), false).status).toBe("failed");
  expect(replyToThrow("just words", false)).toMatchObject({ result: { content: [{ text: "just words" }] } });
  expect(replyToThrow(new Error(""), false)).toMatchObject({
    result: { content: [{ text: "The plugin failed and gave no message." }] },
  });
});

test("keeps an answer's status and its request to return control to the user", () => {
  const answer = { content: [{ type: "text", text: "x" }], status: "truncated", yield_to_user: true };
  expect(toToolAnswer(answer, false)).toEqual({ ...answer, ...plain });
});
