import { artifactsIn, type Block, type Json } from "@backplane/contract";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { projectContent, restoreContent } from "../../src/compaction/projected-content.ts";

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
    expect(restoreContent(projected)).toEqual(block);
  },
);

verifies("content.blocks", "does not change blocks of text, or blocks that a compactor wrote itself", () => {
  const plain: Block = { kind: "input", content: [{ type: "text", text: "hi" }] };
  expect(projectContent(plain)).toBe(plain);
  const own: Block = { kind: "input", content: [{ type: "chart", text: "mine", points: [1] }] };
  expect(restoreContent(own)).toEqual(own);
});
