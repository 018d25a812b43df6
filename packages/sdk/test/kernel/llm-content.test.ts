import type { JsonObject } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { contentPieces, mediaPieces, pieceText, textOf } from "../../src/kernel/index.ts";

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
  const pieces = contentPieces("", [
    { name: "a.txt", text: "hello" },
    { name: "b.pdf", media_type: "application/pdf", data: "AAAA" },
    { name: "c.png", media_type: "image/png", url: "file:///etc/passwd" },
    {},
  ]);
  expect(pieces.map((piece) => (piece.type === "text" ? piece.text : piece.url))).toEqual([
    "Attachment a.txt:\nhello",
    "[Attachment b.pdf (application/pdf), not shown]",
    "[Attachment c.png (image/png), not shown]",
    "[Attachment unnamed (unknown type), not shown]",
  ]);
});

verifies(
  "content.blocks",
  "sends an image only in a format that vendors accept, whatever media type its block declares",
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

const PDF = Buffer.from("%PDF-1.7 pages").toString("base64");
const WAV = Buffer.from("RIFF\x24\x00\x00\x00WAVEfmt ", "latin1").toString("base64");
const MP3 = Buffer.from("ID3\x04\x00\x00\x00\x00\x00\x00\x00\x00", "latin1").toString("base64");
const EVERY_MEDIUM = new Set(["document", "audio"] as const);

verifies(
  "content.blocks",
  "passes PDFs and audio in every known block format to a vendor that accepts them",
  () => {
    const document = { type: "document", media_type: "application/pdf", data: PDF };
    const resource = { uri: "file:///reports/a.pdf", mimeType: "application/pdf", blob: PDF };
    expect(
      mediaPieces(
        [
          { type: "resource", resource },
          {
            type: "document",
            title: "b.pdf",
            source: { type: "base64", media_type: "application/pdf", data: PDF },
          },
          { type: "file", file: { filename: "c.pdf", file_data: `data:application/pdf;base64,${PDF}` } },
          { type: "input_file", filename: "d.pdf", file_data: `data:application/pdf;base64,${PDF}` },
          { type: "file", path: "out/e.pdf", mimeType: "application/pdf", sha256: "ab", data: PDF },
          { type: "audio", data: WAV, mimeType: "audio/wav" },
          { type: "input_audio", input_audio: { data: MP3, format: "mp3" } },
        ],
        [{ name: "f.pdf", media_type: "application/pdf", data: PDF }],
        EVERY_MEDIUM,
      ),
    ).toEqual([
      ...["a.pdf", "b.pdf", "c.pdf", "d.pdf", "e.pdf"].map((name) => ({ ...document, name })),
      { type: "audio", format: "wav", data: WAV },
      { type: "audio", format: "mp3", data: MP3 },
      { ...document, name: "f.pdf" },
    ]);
  },
);

verifies(
  "content.blocks",
  "describes PDFs and audio that are not accepted or not what they claim to be",
  () => {
    const blocks: JsonObject[] = [
      { type: "resource", resource: { uri: "file:///a.pdf", mimeType: "application/pdf", blob: PDF } },
      { type: "audio", data: WAV, mimeType: "audio/wav" },
    ];
    expect(contentPieces(blocks)).toEqual([
      { type: "text", text: "[resource: file:///a.pdf, application/pdf, 14 bytes]" },
      { type: "text", text: "[audio: audio/wav, 16 bytes]" },
    ]);
    const types = (accepted: "document" | "audio") =>
      mediaPieces(blocks, [], new Set([accepted])).map(({ type }) => type);
    expect(types("document")).toEqual(["document", "text"]);
    expect(types("audio")).toEqual(["text", "audio"]);
    const false_claims: JsonObject[] = [
      { type: "resource", resource: { uri: "file:///a.pdf", mimeType: "application/pdf", blob: "AAAA" } },
      { type: "resource", resource: { mimeType: "application/pdf", blob: `${PDF} not base64` } },
      { type: "audio", data: "UklGRiQAAABYWFhY", mimeType: "audio/wav" },
    ];
    expect(mediaPieces(false_claims, [], EVERY_MEDIUM).map(({ type }) => type)).toEqual([
      "text",
      "text",
      "text",
    ]);
    expect(mediaPieces(blocks, [], EVERY_MEDIUM).map(pieceText)).toEqual([
      "[document: a.pdf, application/pdf]",
      "[audio: audio/wav]",
    ]);
  },
);

verifies("content.blocks", "shows the text of an attached file to the model", () => {
  const resource = { uri: "file:///notes%20a.md", mimeType: "text/markdown", text: "# Notes" };
  expect(contentPieces("see", [{ type: "resource", resource }])).toEqual([
    { type: "text", text: "see" },
    { type: "text", text: "Attachment notes a.md:\n# Notes" },
  ]);
});
