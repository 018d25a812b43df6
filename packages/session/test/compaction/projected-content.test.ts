import { artifactsIn, type Block, type Entry, type Json, type JsonObject } from "@backplane/contract";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { projectContent, restoreContent } from "../../src/compaction/projected-content.ts";
import { blockOf } from "../../src/sessions/blocks.ts";

const stored = { transport: "artifact", path: "block-1.png", bytes: 9, sha256: "ab", invocation_id: "inv_1" };
const block: Block = {
  entry_id: 7,
  kind: "tool_result",
  tool_call_id: "c",
  content: [
    { type: "text", text: "a chart" },
    { type: "image", mimeType: "image/png", ...stored },
    { type: "audio", data: "AAAA", mimeType: "audio/wav" },
  ],
};

verifies(
  "content.blocks",
  "gives a compactor the text form of each block and a reference that it can return",
  () => {
    const projected = projectContent(block);
    expect(projected.content.map(({ text }) => text)).toEqual([
      "a chart",
      "[image: block-1.png, image/png, 9 bytes, stored as artifact ab of invocation inv_1]",
      "[audio: audio/wav, 3 bytes]",
    ]);
    // A compactor may return the projection. An artifact in a result must be a file that the call wrote, so the
    // projection contains none.
    expect(artifactsIn(projected as unknown as Json)).toEqual([]);
    expect(restoreContent(projected, [])).toEqual(block);
  },
);

verifies("content.blocks", "does not change blocks of text, or blocks that a compactor wrote itself", () => {
  const plain: Block = { kind: "input", content: [{ type: "text", text: "hi" }] };
  expect(projectContent(plain)).toBe(plain);
  const own: Block = { kind: "input", content: [{ type: "chart", text: "mine", points: [1] }] };
  expect(restoreContent(own, [])).toEqual(own);
});

verifies("content.blocks", "replaces large attachments with references, which a compactor can return", () => {
  const data = `iVBORw0KGgo${"A".repeat(40_000)}`;
  const blob = `JVBERi0${"A".repeat(40_000)}`;
  const attachments: JsonObject[] = [
    { type: "image", data, mimeType: "image/png", name: "a.png" },
    { name: "b.pdf", media_type: "application/pdf", data: blob },
    { type: "image", source: { type: "base64", media_type: "image/png", data } },
    { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" },
  ];
  const payload = { role: "user", content: "see", attachments };
  const entry: Entry = { id: 7, kind: "message", payload, meta: {}, date: "2026-01-01T00:00:00Z" };
  const block_with_data = blockOf(entry)!;
  const projected = projectContent(block_with_data);
  expect(JSON.stringify(projected).length).toBeLessThan(2_000);
  expect(projected.content).toMatchObject([
    { type: "text", text: "see" },
    {
      type: "image",
      name: "a.png",
      mimeType: "image/png",
      transport: "stored",
      bytes: 30_008,
      entry_id: 7,
      content_index: 1,
      text: "[image: a.png, image/png, 30008 bytes]",
    },
    { type: "resource", resource: { uri: "file:///b.pdf", mimeType: "application/pdf" }, content_index: 2 },
    { type: "image", mimeType: "image/png", content_index: 3 },
    { type: "image", data: "iVBORw0KGgo=" },
  ]);
  expect(restoreContent(projected, [entry])).toEqual(block_with_data);
  // A reference that the compactor invented becomes its description.
  const [, reference] = projected.content;
  const invented: Block = { kind: "input", content: [{ ...reference!, content_index: 9 }] };
  expect(restoreContent(invented, [entry]).content).toEqual([
    { type: "text", text: "[image: a.png, image/png, 30008 bytes]" },
  ]);
});

verifies("content.blocks", "replaces large data beside a text, and restores both", () => {
  const image = {
    type: "image",
    text: "a plan",
    data: `iVBORw0KGgo${"A".repeat(40_000)}`,
    mimeType: "image/png",
  };
  const payload = { role: "user", content: "see", attachments: [image] };
  const entry: Entry = { id: 7, kind: "message", payload, meta: {}, date: "2026-01-01T00:00:00Z" };
  const projected = projectContent(blockOf(entry)!);
  expect(projected.content[1]).toMatchObject({ transport: "stored", entry_id: 7, content_index: 1 });
  expect(projected.content[1]).not.toHaveProperty("data");
  expect(restoreContent(projected, [entry])).toEqual(blockOf(entry));
});
