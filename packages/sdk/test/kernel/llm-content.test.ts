import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { contentPieces, textOf } from "../../src/kernel/index.ts";

test("reads text in every form and returns no piece for empty content", () => {
  expect(textOf("plain")).toBe("plain");
  expect(textOf([{ type: "text", text: "a" }, "b", { sum: 3 }])).toBe('a\nb\n{"sum":3}');
  expect(textOf(7)).toBe("7");
  expect(contentPieces(null)).toEqual([]);
  expect(contentPieces("")).toEqual([]);
});

test("recognizes an image by its URL or its data", () => {
  const png = "data:image/png;base64,iVBORw0KGgo=";
  const inline = { type: "image", url: png, media_type: "image/png", data: "iVBORw0KGgo=" };
  expect(contentPieces([{ type: "image", data: "iVBORw0KGgo=" }])).toEqual([inline]);
  expect(contentPieces("", [{ url: png }])).toEqual([inline]);
  expect(contentPieces("", [{ mime_type: "image/png", data: png }])).toEqual([inline]);
  expect(contentPieces([{ type: "image_url", image_url: { url: "https://example.com/a.gif" } }])).toEqual([
    { type: "image", url: "https://example.com/a.gif" },
  ]);
});

test("describes other attachments as text and never passes a local address as an image", () => {
  const words = contentPieces("", [
    { name: "a.txt", text: "hello" },
    { name: "b.pdf", media_type: "application/pdf", data: "AAAA" },
    { name: "c.png", media_type: "image/png", url: "file:///etc/passwd" },
    {},
  ]);
  expect(words.map((piece) => (piece.type === "text" ? piece.text : piece.url))).toEqual([
    "Attachment a.txt:\nhello",
    "[Attachment b.pdf (application/pdf), not shown]",
    "[Attachment c.png (image/png), not shown]",
    "[Attachment unnamed (unknown type), not shown]",
  ]);
});

verifies(
  "content.blocks",
  "sends an image only in a format that vendors read, whatever its block claims",
  () => {
    const jpeg = "/9j/AAAA";
    expect(contentPieces([{ type: "image", data: jpeg, mimeType: "image/png" }])).toEqual([
      { type: "image", url: `data:image/jpeg;base64,${jpeg}`, media_type: "image/jpeg", data: jpeg },
    ]);
    const stored = { transport: "artifact", path: "a.png", bytes: 9, sha256: "ab", invocation_id: "inv_1" };
    const others = contentPieces([
      { type: "image", data: "PHN2Zz4=", mimeType: "image/svg+xml" },
      { type: "image", data: "iVBORw0KGgo= broken", mimeType: "image/png" },
      { type: "image", mimeType: "image/png", ...stored },
    ]);
    expect(others).toEqual([
      { type: "text", text: "[image: image/svg+xml, 5 bytes]" },
      { type: "text", text: "[image: image/png, 14 bytes]" },
      { type: "text", text: "[image: a.png, image/png, 9 bytes, stored as artifact ab of invocation inv_1]" },
    ]);
    expect(textOf([{ type: "image", data: jpeg }])).toBe("[image: image/jpeg]");
  },
);
