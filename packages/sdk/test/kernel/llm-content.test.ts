import { expect, test } from "vitest";
import { contentPieces, textOf } from "../../src/kernel/index.ts";

test("reads text in every form and returns no piece for empty content", () => {
  expect(textOf("plain")).toBe("plain");
  expect(textOf([{ type: "text", text: "a" }, "b", { sum: 3 }])).toBe('a\nb\n{"sum":3}');
  expect(textOf(7)).toBe("7");
  expect(contentPieces(null)).toEqual([]);
  expect(contentPieces("")).toEqual([]);
});

test("recognizes an image by its URL or its data", () => {
  const png = "data:image/png;base64,AAAA";
  const inline = { type: "image", url: png, media_type: "image/png", data: "AAAA" };
  expect(contentPieces([{ type: "image", data: "AAAA" }])).toEqual([inline]);
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
