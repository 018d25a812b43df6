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

test("leading system messages are the prompt, a later one stays in its place", () => {
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

test("a call whose result is missing gets one that says so", () => {
  const { history } = splitMessages([user("go"), calls("a", "b"), result("b"), user("stop")]);
  expect(history).toEqual([
    user("go"),
    calls("a", "b"),
    { role: "tool", tool_call_id: "a", content: "No result was recorded for this call.", is_error: true },
    result("b"),
    user("stop"),
  ]);
});

test("results follow their call in its order, whatever came between", () => {
  const messages = [user("go"), calls("a", "b"), result("b"), user("also"), result("a"), result("ghost")];
  expect(splitMessages(messages).history).toEqual([
    user("go"),
    calls("a", "b"),
    result("a"),
    result("b"),
    user("also"),
  ]);
});

test("a call id that is used again gets its own result", () => {
  const messages = [calls("a"), result("a", "first"), calls("a"), result("a", "second")];
  expect(splitMessages(messages).history).toEqual(messages);
});
