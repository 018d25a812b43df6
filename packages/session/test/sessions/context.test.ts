/** The tape as a model sees it. */
import { CONTENT_LIMITS, type Entry, type Json, type JsonObject } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { ContextBuilder, contextOf, resultText } from "../../src/sessions/context.ts";

let next_id = 1;
function entry(kind: Entry["kind"], payload: JsonObject, meta: JsonObject = {}): Entry {
  return { id: next_id++, kind, payload, meta, date: "2026-01-01T00:00:00.000Z" };
}

const messageEntry = (role: string, content: Json) => entry("message", { role, content });
const call = (id: string, step?: string) =>
  entry("tool_call", { id, name: "add", args: {} }, step === undefined ? {} : { step });
const result = (id: string, value: string) => entry("tool_result", { tool_call_id: id, ok: true, value });
const answer = (text: string, ...ids: string[]) =>
  entry("event", { name: "llm.call.response", data: { text, tool_calls: ids.map((id) => ({ id })) } });
const summary = (text: string) =>
  entry("anchor", { name: "session/compaction", state: { kind: "compaction", summary: text } });

/** One line per message: role, text and the ids of calls. */
const lines = (...entries: Entry[]) =>
  contextOf(entries).map((message) => {
    if (message.role === "tool") {
      const error = message.is_error === true ? "!" : "";
      return `tool ${message.tool_call_id}: ${message.content as string}${error}`;
    }
    const calls = "tool_calls" in message ? ` [${message.tool_calls?.map(({ id }) => id).join(" ")}]` : "";
    return `${message.role}: ${JSON.stringify(message.content)}${calls}`;
  });

test("begins at the last anchor, with its summary as a system message", () => {
  const older_entries = [messageEntry("user", "old"), messageEntry("assistant", "older")];
  expect(lines(...older_entries, summary("so far"), messageEntry("user", "new"))).toEqual([
    'system: "so far"',
    'user: "new"',
  ]);
  const start = entry("anchor", { name: "session/start", state: {} });
  expect(lines(...older_entries, start, messageEntry("user", "new"))).toEqual(['user: "new"']);
});

test("groups the calls of one step with the text of their answer, results in the order of the calls", () => {
  expect(
    lines(
      messageEntry("user", "sum"),
      answer("I will add.", "a", "b"),
      call("a", "s1"),
      result("a", "1"),
      call("b", "s1"),
      call("c", "s2"),
      result("c", "3"),
      messageEntry("assistant", "done"),
    ),
  ).toEqual([
    'user: "sum"',
    'assistant: "I will add." [a b]',
    "tool a: 1",
    "tool b: no outcome of this call was recorded!",
    'assistant: "" [c]',
    "tool c: 3",
    'assistant: "done"',
  ]);
  const reversed = lines(call("a", "s1"), call("b", "s1"), result("b", "2"), result("a", "1"));
  expect(reversed).toEqual(['assistant: "" [a b]', "tool a: 1", "tool b: 2"]);
});

test("ends a group of calls without a step at its first result", () => {
  expect(
    lines(call("a"), call("b"), result("a", "1"), result("b", "2"), call("c"), result("c", "3")),
  ).toEqual(['assistant: "" [a b]', "tool a: 1", "tool b: 2", 'assistant: "" [c]', "tool c: 3"]);
});

test("puts a message that arrived during calls after their results", () => {
  const entries = [call("a", "s1"), messageEntry("user", "hurry"), result("a", "1")];
  expect(lines(...entries)).toEqual(['assistant: "" [a]', "tool a: 1", 'user: "hurry"']);
  expect(lines(...entries, messageEntry("assistant", "done")).slice(-2)).toEqual([
    'user: "hurry"',
    'assistant: "done"',
  ]);
});

test("shows why a call was refused, and a late result in place of its placeholder", () => {
  const refused = entry("event", { name: "tool.error", data: { id: "a", brief: "not allowed" } });
  expect(lines(call("a", "s1"), refused)).toEqual(['assistant: "" [a]', "tool a: not allowed!"]);
  expect(lines(call("a", "s1"), messageEntry("assistant", "gave up"), result("a", "late"))).toEqual([
    'assistant: "" [a]',
    "tool a: late",
    'assistant: "gave up"',
  ]);
});

test("estimates a token for every four characters since the last anchor", () => {
  const builder = new ContextBuilder();
  builder.add(messageEntry("user", "x".repeat(400)));
  expect(builder.tokens).toBe(100);
  builder.add(summary("y".repeat(10)));
  expect(builder.tokens).toBe(3);
});

test("shows the display of a result, or else its error, or else its value", () => {
  const display = (shown: JsonObject) => resultText({ envelope: { display: shown }, error: "e", value: "v" });
  expect(display({ text: "t", markdown: "m", data: {} })).toBe("t");
  expect(display({ markdown: "m", data: {} })).toBe("m");
  expect(display({ data: { n: 1 } })).toBe('{"n":1}');
  expect(resultText({ error: "e", value: "v" })).toBe("e");
  expect(resultText({ value: { n: 1 } })).toBe('{"n":1}');
});

const contentFor = (payload: JsonObject) => {
  const [, message] = contextOf([call("c"), entry("tool_result", { tool_call_id: "c", ...payload })]);
  return message!.content;
};

verifies("content.blocks", "gives the model every block and the structured output of a result", () => {
  const image = { type: "image", data: "AAAA", mimeType: "image/png" };
  const text = { type: "text", text: "Found 1 issue." };
  const value = { issues: ["ENG-1"] };
  const json = { type: "text", text: JSON.stringify(value) };
  expect(contentFor({ ok: true, content: [text, image], value })).toEqual([text, image, json]);
  // A result of text blocks stays one string, and text that repeats the structured output is not sent twice.
  expect(contentFor({ ok: true, envelope: { display: { kind: "text", text: text.text } }, value })).toBe(
    `${text.text}\n${json.text}`,
  );
  const spaced = { type: "text", text: JSON.stringify(value, null, 2) };
  expect(contentFor({ ok: true, content: [spaced], value })).toBe(spaced.text);
  const printed = { stdout: "12 rows", stderr: "" };
  expect(contentFor({ ok: true, content: [{ type: "text", text: "12 rows" }], value: printed })).toBe(
    "12 rows",
  );
});

verifies("content.errors", "gives the model message, code and stderr excerpt of a failure", () => {
  const refused = { ok: false, content: [{ type: "text", text: "refused" }], error: "no route to the API" };
  expect(contentFor(refused)).toBe("no route to the API\nrefused");
  const failure = { kind: "crashed", code: "crashed", retryable: true, stderr: "Segmentation fault" };
  expect(contentFor({ ok: false, error: "it died", failure })).toBe(
    "it died\n[error: crashed. A retry may succeed.]\n[stderr]\nSegmentation fault",
  );
});

test("reads results that were recorded before blocks existed", () => {
  expect(contentFor({ ok: true, value: "plain" })).toBe("plain");
  expect(contentFor({ ok: true, value: [{ type: "text", text: "a block" }] })).toBe("a block");
  expect(contentFor({ ok: false, error: "no" })).toBe("no");
});

test("estimates the tokens of an image without counting its data", () => {
  const builder = new ContextBuilder();
  builder.add(call("c"));
  const tokens_before = builder.tokens;
  const image = { type: "image", data: "A".repeat(16_000), mimeType: "image/png" };
  builder.add(entry("tool_result", { tool_call_id: "c", ok: true, content: [image] }));
  expect(builder.tokens - tokens_before).toBe(1_600);
});

verifies("content.blocks", "counts attachments as the vendors do, whether or not they have a type", () => {
  const tokens = (...attachments: JsonObject[]) => {
    const builder = new ContextBuilder({ count_only: true });
    builder.add(entry("message", { role: "user", content: "1234", attachments }));
    return builder.tokens - 1;
  };
  const image = CONTENT_LIMITS.image_tokens;
  const data = `iVBORw0KGgo${"A".repeat(533_000)}`;
  expect(tokens({ type: "image", data, mimeType: "image/png" })).toBe(image);
  expect(tokens({ name: "a.png", data })).toBe(image);
  expect(tokens({ name: "a.png", mime_type: "image/png", data: `data:image/png;base64,${data}` })).toBe(
    image,
  );
  expect(tokens({ type: "image_url", image_url: { url: `data:image/png;base64,${data}` } })).toBe(image);
  expect(tokens({ url: "https://example.com/a.png" })).toBe(image);
  const stored = {
    transport: "artifact",
    path: "a.png",
    bytes: 400_000,
    sha256: "ab",
    invocation_id: "inv_1",
  };
  expect(tokens({ type: "image", mimeType: "image/png", ...stored })).toBe(image);
  expect(tokens({ type: "resource", resource: { uri: "x", mimeType: "application/pdf" }, ...stored })).toBe(
    6 * image,
  );
  expect(
    tokens({ name: "a.pdf", media_type: "application/pdf", data: `JVBERi0${"A".repeat(533_000)}` }),
  ).toBe(6 * image);
  expect(tokens({ name: "a.txt", text: "x".repeat(4_000) })).toBe(1_000);
  const rest = tokens({}, { name: "a" }, { name: "a.bin", data: "A".repeat(100_000) });
  expect(rest).toBeGreaterThan(0);
  expect(rest).toBeLessThan(200);
});
