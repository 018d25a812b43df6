import { expect, test } from "vitest";
import { replyToThrow, toToolAnswer } from "../src/outcome.ts";

const plain = { is_error: false, retryable: false };

test("nothing is an empty answer, null is a value", () => {
  expect(toToolAnswer(undefined, false)).toEqual({ content: [], ...plain });
  expect(toToolAnswer(null, false)).toMatchObject({ structured_output: null, content: [{ text: "null" }] });
});

test("a string is structured output only where a schema asks for it", () => {
  expect(toToolAnswer("hi", false)).toEqual({ content: [{ type: "text", text: "hi" }], ...plain });
  expect(toToolAnswer("hi", true)).toEqual({
    content: [{ type: "text", text: "hi" }],
    structured_output: "hi",
    ...plain,
  });
});

test("a value that only resembles a whole answer is a value", () => {
  for (const value of [
    { content: "a page" },
    { content: ["a", "b"] },
    { content: [{ type: "text", text: "x" }], author: "me" },
  ]) {
    expect(toToolAnswer(value, true)).toMatchObject({ structured_output: value });
  }
});

test("a value that is no JSON is refused", () => {
  expect(() => toToolAnswer(() => 1, false)).toThrow(/must return JSON, not a function/);
  expect(() => toToolAnswer({ n: 1n }, false)).toThrow();
});

test("a throw after the cancel is its acknowledgement, fail() stays a failure", () => {
  expect(replyToThrow(new Error("aborted"), true).status).toBe("cancelled");
  expect(replyToThrow(new Error("a bug"), false).status).toBe("failed");
  expect(replyToThrow("just words", false)).toMatchObject({ result: { content: [{ text: "just words" }] } });
  expect(replyToThrow(new Error(""), false)).toMatchObject({
    result: { content: [{ text: "The plugin failed and gave no message." }] },
  });
});
