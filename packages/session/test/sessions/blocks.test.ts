import type { Block, Entry, Json, JsonObject } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { blockOf, entryFromBlock } from "../../src/sessions/blocks.ts";

const NOW = "2026-11-01T10:00:00.000Z";
const text = (value: string) => [{ type: "text", text: value }];
const entry = (kind: Entry["kind"], payload: Entry["payload"]): Entry => ({
  id: 7,
  kind,
  payload,
  meta: {},
  date: NOW,
});

test("converts every entry with a VAI equivalent into its block", () => {
  const cases: [Entry, Partial<Block> | null][] = [
    [entry("message", { role: "system", content: "s" }), { kind: "system", content: text("s") }],
    [entry("message", { role: "user", content: "u" }), { kind: "input", content: text("u") }],
    [entry("message", { role: "assistant", content: "" }), { kind: "response", content: [] }],
    [entry("message", { role: "critic", content: "?" }), null],
    [
      entry("anchor", { name: "a", state: { kind: "compaction", summary: "so far" } }),
      { kind: "system", name: "summary", content: text("so far") },
    ],
    [entry("anchor", { name: "session/start", state: {} }), null],
    [
      entry("tool_call", { id: "c", name: "search", args: { q: 1 } }),
      { kind: "tool_call", content: [], tool_call_id: "c", name: "search", input: { q: 1 } },
    ],
    [
      entry("tool_result", { tool_call_id: "c", ok: true, value: { hits: 2 } }),
      {
        kind: "tool_result",
        content: text('{"hits":2}'),
        tool_call_id: "c",
        structured_output: { hits: 2 },
        is_error: false,
      },
    ],
    // A result that does not report success counts as an error.
    [
      entry("tool_result", { tool_call_id: "c", value: "odd" }),
      { kind: "tool_result", content: text("odd"), tool_call_id: "c", is_error: true },
    ],
    [
      entry("tool_result", { tool_call_id: "c", ok: false, error: "no" }),
      { kind: "tool_result", content: text("no"), tool_call_id: "c", is_error: true },
    ],
    [
      entry("tool_result", {
        tool_call_id: "c",
        ok: true,
        envelope: { brief: "seen", display: { kind: "text", text: "bread costs 3" } },
      }),
      { kind: "tool_result", content: text("bread costs 3"), tool_call_id: "c", is_error: false },
    ],
    [
      entry("tool_result", {
        tool_call_id: "c",
        ok: true,
        envelope: { brief: "seen", display: { kind: "json", data: { price: 3 } } },
      }),
      {
        kind: "tool_result",
        content: text('{"price":3}'),
        tool_call_id: "c",
        structured_output: { price: 3 },
        is_error: false,
      },
    ],
    [
      entry("event", { name: "tool.error", data: { id: "c", kind: "rejected", brief: "no" } }),
      { kind: "tool_result", content: text("no"), tool_call_id: "c", is_error: true },
    ],
    [
      entry("event", { name: "thinking", data: { content: "hm" } }),
      { kind: "thinking", content: text("hm") },
    ],
    [entry("event", { name: "memory.query", data: {} }), null],
  ];
  for (const [tape_entry, block] of cases) {
    expect(blockOf(tape_entry)).toEqual(block === null ? null : { entry_id: 7, ...block });
  }
});

test("a block converted to an entry converts back to the same block", () => {
  const blocks: Block[] = [
    { kind: "system", content: text("You are a coding agent.") },
    { kind: "input", content: text("Summary of prior work.") },
    { kind: "response", content: [...text("see"), { type: "image", url: "u" }] },
    { kind: "thinking", content: text("hm") },
    { kind: "tool_call", content: [], tool_call_id: "c", name: "search", input: { q: 1 } },
    { kind: "tool_result", content: text("3 issues"), tool_call_id: "c", is_error: false },
    { kind: "tool_result", content: text("no"), tool_call_id: "c", is_error: true },
  ];
  for (const block of blocks) {
    expect(blockOf({ id: 7, ...entryFromBlock(block, NOW) })).toEqual({ entry_id: 7, ...block });
  }
});

verifies("content.blocks", "shows the blocks of a result together with its structured output", () => {
  const content = [...text("Found 1 issue."), { type: "image", data: "AAAA", mimeType: "image/png" }];
  const envelope = { brief: "Found 1 issue.", display: { kind: "text", text: "Found 1 issue." } };
  const payload = { tool_call_id: "c", ok: true, value: { n: 1 }, envelope };
  const block = {
    entry_id: 7,
    kind: "tool_result",
    tool_call_id: "c",
    structured_output: { n: 1 },
    is_error: false,
  };
  expect(blockOf(entry("tool_result", { ...payload, content }))).toEqual({ ...block, content });
  // The author's text is not replaced by the JSON of the structured part.
  expect(blockOf(entry("tool_result", payload))).toEqual({ ...block, content: text("Found 1 issue.") });
});

verifies("content.blocks", "keeps content, structured output and failure of an added tool result", () => {
  const failure = { kind: "failed" as const, code: "plugin_failed", retryable: false };
  const block: Block = {
    kind: "tool_result",
    content: [...text("see"), { type: "image", data: "AAAA", mimeType: "image/png" }],
    tool_call_id: "c",
    structured_output: { n: 1 },
    is_error: true,
    failure,
  };
  expect(blockOf({ id: 7, ...entryFromBlock(block, NOW) })).toEqual({ entry_id: 7, ...block });
});

const PNG = `iVBORw0KGgo${"A".repeat(40_000)}`;
const ATTACHMENTS: JsonObject[] = [
  { type: "image", data: PNG, mimeType: "image/png", name: "a.png" },
  { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
  { type: "resource", resource: { uri: "file:///a.md", mimeType: "text/markdown", text: "# A" } },
  { name: "a.txt", text: "words" },
  { name: "b.pdf", media_type: "application/pdf", data: "JVBERi0x" },
  { name: "c.png", mime_type: "image/png", data: `data:image/png;base64,${PNG}` },
  { name: "d.png", data: PNG },
  { name: "e.wav", mimeType: "audio/wav", data: "UklGRgAA" },
  { url: "https://example.com/f.png" },
  { name: "g" },
  {},
];

verifies("content.blocks", "shows the attachments of a message as blocks after its text", () => {
  const { content } = blockOf(entry("message", { role: "user", content: "see", attachments: ATTACHMENTS }))!;
  expect(content[0]).toEqual({ type: "text", text: "see" });
  expect(content.map(({ type }) => type)).toEqual(
    "text image image resource text resource image image audio image file file".split(" "),
  );
  expect(content[4]).toMatchObject({ type: "text", name: "a.txt", text: "words", attachment: "untyped" });
  expect(content[5]).toMatchObject({
    name: "b.pdf",
    resource: { uri: "file:///b.pdf", mimeType: "application/pdf", blob: "JVBERi0x" },
  });
  // Only messages of users have attachments.
  const answer = entry("message", { role: "assistant", content: "see", attachments: ATTACHMENTS });
  expect(blockOf(answer)!.content).toEqual(text("see"));
});

verifies("content.blocks", "restores the attachments of a message from its block exactly", () => {
  const message = entry("message", { role: "user", content: text("see"), attachments: ATTACHMENTS });
  const { kind, payload } = entryFromBlock(blockOf(message)!, NOW);
  expect({ kind, payload }).toEqual({ kind: "message", payload: message.payload });
});

verifies(
  "content.blocks",
  "restores the content of attachments whose original form cannot be restored",
  () => {
    const attachments: Json[] = [
      { name: "b.pdf", data: "data:application/pdf;base64,JVBERi0x" },
      { resource: { uri: "file:///a.md", text: "# A", blob: "AAAA" } },
      "not an attachment",
    ];
    const block = blockOf(entry("message", { role: "user", content: "see", attachments }))!;
    expect(block.content).toHaveLength(3);
    expect(block.content[1]).toMatchObject({ resource: { mimeType: "application/pdf", blob: "JVBERi0x" } });
    const restored = entryFromBlock(block, NOW);
    expect(blockOf({ id: 7, ...restored })).toEqual(block);
  },
);
