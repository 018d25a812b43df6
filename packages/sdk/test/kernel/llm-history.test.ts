import type { ChatMessage } from "@backplane/contract";
import { expect, test } from "vitest";
import { splitMessages } from "../../src/kernel/llm-history.ts";

const calls = (...ids: string[]): ChatMessage => ({
  role: "assistant",
  content: "",
  tool_calls: ids.map((id) => ({ id, name: "t", args: {} })),
});
const result = (tool_call_id: string, content = "ok"): ChatMessage => ({
  role: "tool",
  tool_call_id,
  content,
});
const user = (content: string): ChatMessage => ({ role: "user", content });

test("uses leading system messages as the prompt and keeps later ones in place", () => {
  const messages: ChatMessage[] = [
    { role: "system", content: "one" },
    { role: "system", content: [{ type: "text", text: "two" }] },
    user("hi"),
    { role: "system", content: "later" },
  ];
  expect(splitMessages(messages)).toEqual({
    system: "one\n\ntwo",
    history: [user("hi"), user("<system>\nlater\n</system>")],
  });
  expect(splitMessages([{ role: "system", content: "only" }])).toEqual({ system: "only", history: [] });
  expect(splitMessages([])).toEqual({ system: "", history: [] });
});

test("adds a placeholder for the missing result of a call", () => {
  const { history } = splitMessages([user("go"), calls("a", "b"), result("b"), user("stop")]);
  expect(history).toEqual([
    user("go"),
    calls("a", "b"),
    { role: "tool", tool_call_id: "a", content: "No result was recorded for this call.", is_error: true },
    result("b"),
    user("stop"),
  ]);
});

test("places results after their call in call order, regardless of messages in between", () => {
  const messages = [user("go"), calls("a", "b"), result("b"), user("also"), result("a"), result("ghost")];
  expect(splitMessages(messages).history).toEqual([
    user("go"),
    calls("a", "b"),
    result("a"),
    result("b"),
    user("also"),
  ]);
});

test("matches a reused call id with its own result", () => {
  const messages = [calls("a"), result("a", "first"), calls("a"), result("a", "second")];
  expect(splitMessages(messages).history).toEqual(messages);
});
