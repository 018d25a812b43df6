import { expect, test } from "vitest";
import {
  CONTENT_LIMITS,
  type ContentBlock,
  contentChars,
  contentText,
  describeContent,
  inlineDataOf,
  isContent,
  isImage,
  normalizeContent,
  withInlineData,
} from "../../src/values/content-block.ts";

const PNG = "iVBORw0KGgo=";
const image: ContentBlock = { type: "image", data: PNG, mimeType: "image/png" };

test.for<[string, ContentBlock, ContentBlock]>([
  ["mime_type", { type: "image", data: PNG, mime_type: "image/png" }, image],
  [
    "media_type",
    { type: "audio", data: "AA==", media_type: "audio/mp3" },
    { type: "audio", data: "AA==", mimeType: "audio/mp3" },
  ],
  ["no MIME type", { type: "image", data: PNG }, image],
  ["a data URL", { type: "image", data: `data:image/png;base64,${PNG}` }, image],
  [
    "Anthropic's source",
    { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
    image,
  ],
  ["OpenAI's image_url", { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } }, image],
  ["OpenAI's input_image", { type: "input_image", image_url: `data:image/png;base64,${PNG}` }, image],
  [
    "OpenAI's input_audio",
    { type: "input_audio", input_audio: { data: "AA==", format: "wav" } },
    { type: "audio", data: "AA==", mimeType: "audio/wav" },
  ],
  [
    "the URL of a remote image",
    { type: "image", source: { type: "url", url: "https://a.example/x.png" } },
    { type: "resource_link", uri: "https://a.example/x.png", name: "image" },
  ],
])("converts a block with %s to the canonical form", ([, input, expected]) => {
  expect(normalizeContent(input)).toEqual(expected);
});

test("changes neither canonical blocks nor blocks of unknown types", () => {
  const blocks: ContentBlock[] = [
    { type: "text", text: "t", annotations: { priority: 1 } },
    image,
    { type: "resource", resource: { uri: "file:///a", text: "x" } },
    { type: "chart", data: [1, 2] },
    { type: "input_audio", input_audio: "odd" },
  ];
  for (const block of blocks) expect(normalizeContent(block)).toBe(block);
});

test("accepts only lists of objects with a type as content", () => {
  expect(isContent([image, { type: "x" }])).toBe(true);
  expect(isContent([])).toBe(true);
  for (const value of [undefined, "text", [{ text: "t" }], [{ type: "" }], [null], { type: "text" }])
    expect(isContent(value)).toBe(false);
});

test("describes each block as text with its kind, size and location", () => {
  const reference = {
    transport: "artifact",
    path: "block-1.png",
    bytes: 51_234,
    sha256: "ab",
    invocation_id: "inv_1",
  };
  const descriptions: [ContentBlock, string][] = [
    [{ type: "text", text: "t" }, "t"],
    [image, "[image: image/png, 8 bytes]"],
    [
      { type: "image", mimeType: "image/png", ...reference },
      "[image: block-1.png, image/png, 51234 bytes, stored as artifact ab of invocation inv_1]",
    ],
    [
      { type: "file", transport: "artifact", path: "a.csv", bytes: 3, sha256: "cd" },
      "[file: a.csv, 3 bytes, stored as artifact cd]",
    ],
    [
      { type: "resource", resource: { uri: "file:///a.md", mimeType: "text/markdown", text: "# A" } },
      "[resource: file:///a.md, text/markdown]\n# A",
    ],
    [
      { type: "resource", resource: { uri: "file:///a.pdf", mimeType: "application/pdf", blob: "AAAA" } },
      "[resource: file:///a.pdf, application/pdf, 3 bytes]",
    ],
    [
      { type: "resource_link", uri: "https://a.example", name: "A", description: "the page" },
      "[resource link: A, https://a.example, the page]",
    ],
    [{ type: "chart", points: [1] }, '{"type":"chart","points":[1]}'],
  ];
  for (const [block, text] of descriptions) expect(describeContent(block)).toBe(text);
  expect(contentText([image, { type: "text", text: "t" }])).toBe("[image: image/png, 8 bytes]\nt");
  const long = describeContent({ type: "chart", points: "x".repeat(50_000) });
  expect(long).toHaveLength(CONTENT_LIMITS.json_chars + 1);
});

test("restores the data of a stored block", () => {
  const reference = {
    transport: "artifact",
    path: "block-1.png",
    bytes: 8,
    sha256: "ab",
    invocation_id: "inv_1",
  };
  expect(withInlineData({ type: "image", mimeType: "image/png", ...reference }, PNG)).toEqual(image);
  const resource = { uri: "file:///a.pdf", mimeType: "application/pdf" };
  expect(withInlineData({ type: "resource", resource, ...reference }, "AAAA")).toEqual({
    type: "resource",
    resource: { ...resource, blob: "AAAA" },
  });
  expect(inlineDataOf(withInlineData({ type: "file", ...reference }, "AAAA"))?.base64).toBe("AAAA");
});

test("counts an image by an estimate, and text and audio by their text form", () => {
  const big = { ...image, data: "A".repeat(100_000) };
  expect(contentChars([big])).toBe(CONTENT_LIMITS.image_tokens * 4);
  expect(contentChars([{ type: "text", text: "1234" }])).toBe(4);
  expect(isImage({ type: "resource", resource: { uri: "x", mimeType: "image/gif" } })).toBe(true);
  expect(contentChars([{ type: "audio", data: "A".repeat(100_000), mimeType: "audio/wav" }])).toBeLessThan(
    100,
  );
});
