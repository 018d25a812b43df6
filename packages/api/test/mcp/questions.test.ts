import { expect, test } from "vitest";
import { Questions, readResponses } from "../../src/mcp/questions.ts";

const FORM = { message: "Who?", requestedSchema: { type: "object" } };

test("only what the client declared is put to it", () => {
  const takes = (capabilities: object, method: string, params: object = {}) =>
    new Questions(capabilities as never).ask(method, params as never) !== null;
  expect(takes({}, "elicitation/create", FORM)).toBe(false);
  expect(takes({ elicitation: {} }, "elicitation/create", FORM)).toBe(true);
  expect(takes({ elicitation: {} }, "elicitation/create", { mode: "url", url: "https://x" })).toBe(false);
  expect(takes({ elicitation: { url: {} } }, "elicitation/create", { mode: "url" })).toBe(true);
  expect(takes({ elicitation: { url: {} } }, "elicitation/create", FORM)).toBe(false);
  expect(takes({ sampling: {} }, "sampling/createMessage")).toBe(true);
  expect(takes({ sampling: {} }, "sampling/createMessage", { tools: [] })).toBe(false);
  expect(takes({ sampling: { tools: {} } }, "sampling/createMessage", { tools: [] })).toBe(true);
  expect(takes({ roots: {} }, "roots/list")).toBe(true);
  expect(takes({ roots: {}, sampling: {}, elicitation: {} }, "secrets/list")).toBe(false);
});

test("a question keeps the plugin's own key, and an answer that came early is used once", async () => {
  const questions = new Questions({ elicitation: {} }, { who: { action: "accept" } });
  expect(await questions.ask("elicitation/create", FORM, "who")).toEqual({ action: "accept" });
  const second = questions.ask("elicitation/create", FORM, "who");
  expect(questions.open.map(({ key }) => key)).toEqual(["who"]);
  expect(questions.answer("other", {})).toBe(false);
  expect(questions.answer("who", { action: "decline" })).toBe(true);
  expect(await second).toEqual({ action: "decline" });
});

test("when the client is gone the gateway answers, and never in its name", async () => {
  const questions = new Questions({ elicitation: {}, sampling: {} });
  const form = questions.ask("elicitation/create", FORM);
  const sample = questions.ask("sampling/createMessage", {});
  questions.close();
  expect(await form).toEqual({ action: "decline" });
  await expect(sample).rejects.toMatchObject({ code: "policy.denied" });
  expect(questions.ask("elicitation/create", FORM)).toBe(null);
});

test("answers have to be objects by key", () => {
  expect(readResponses(undefined)).toEqual({});
  for (const bad of [null, [], "x", { a: 1 }, { a: null }])
    expect(() => readResponses(bad)).toThrow(/inputResponses/);
});
