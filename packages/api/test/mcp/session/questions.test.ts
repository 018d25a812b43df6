import { expect, test } from "vitest";
import { Questions, readResponses } from "../../../src/mcp/session/questions.ts";

const FORM = { message: "Who?", requestedSchema: { type: "object" } };

test("asks only questions that the client's capabilities support", () => {
  const isAsked = (capabilities: object, method: string, params: object = {}) =>
    new Questions(capabilities as never).answerRequest(method, params as never) !== null;
  expect(isAsked({}, "elicitation/create", FORM)).toBe(false);
  expect(isAsked({ elicitation: {} }, "elicitation/create", FORM)).toBe(true);
  expect(isAsked({ elicitation: {} }, "elicitation/create", { mode: "url", url: "https://x" })).toBe(false);
  expect(isAsked({ elicitation: { url: {} } }, "elicitation/create", { mode: "url" })).toBe(true);
  expect(isAsked({ elicitation: { url: {} } }, "elicitation/create", FORM)).toBe(false);
  expect(isAsked({ sampling: {} }, "sampling/createMessage")).toBe(true);
  expect(isAsked({ sampling: {} }, "sampling/createMessage", { tools: [] })).toBe(false);
  expect(isAsked({ sampling: { tools: {} } }, "sampling/createMessage", { tools: [] })).toBe(true);
  expect(isAsked({ roots: {} }, "roots/list")).toBe(true);
  expect(isAsked({ roots: {}, sampling: {}, elicitation: {} }, "secrets/list")).toBe(false);
});

test("keeps the key of the plugin and uses an answer sent in advance once", async () => {
  const questions = new Questions({ elicitation: {} }, { who: { action: "accept" } });
  expect(await questions.answerRequest("elicitation/create", FORM, "who")).toEqual({ action: "accept" });
  const second = questions.answerRequest("elicitation/create", FORM, "who");
  expect(questions.pending.map(({ key }) => key)).toEqual(["who"]);
  expect(questions.answer("other", {})).toBe(false);
  expect(questions.answer("who", { action: "decline" })).toBe(true);
  expect(await second).toEqual({ action: "decline" });
});

test("declines a pending elicitation and rejects a pending sampling request when the client disconnects", async () => {
  const questions = new Questions({ elicitation: {}, sampling: {} });
  const form = questions.answerRequest("elicitation/create", FORM);
  const sample = questions.answerRequest("sampling/createMessage", {});
  questions.close();
  expect(await form).toEqual({ action: "decline" });
  await expect(sample).rejects.toMatchObject({ code: "policy.denied" });
  expect(questions.answerRequest("elicitation/create", FORM)).toBe(null);
});

test("rejects inputResponses unless they map each key to an object", () => {
  expect(readResponses(undefined)).toEqual({});
  for (const bad of [null, [], "x", { a: 1 }, { a: null }])
    expect(() => readResponses(bad)).toThrow(/inputResponses/);
});
