import type { JsonObject } from "@backplane/contract";
import fc from "fast-check";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { encodeContentLength, encodeNdjson } from "../../src/index.ts";
import { type Codec, decodeAll, splitAt } from "./decode-all.ts";

const ENCODE = { "content-length": encodeContentLength, ndjson: encodeNdjson };
const UNICODE: JsonObject[] = [
  { a: 1 },
  { text: 'ä€😀 \u2028 \u0000 \\ " \n', nested: { list: [1, -2.5e300, null, true, "ß"] } },
  {},
  { "": "empty key", "k😀": [[[]]] },
];

const any_frame = fc.dictionary(
  fc.string({ unit: "grapheme" }).filter((key) => key !== "__proto__" && key !== "constructor"),
  fc.jsonValue({ noUnicodeString: false, maxDepth: 4 }),
);
const toWellFormed = (frame: object): JsonObject =>
  JSON.parse(
    JSON.stringify(frame, (_key, value) => (typeof value === "string" ? value.toWellFormed() : value)),
  );
const isDecodable = (frame: object): boolean =>
  !/__proto__|constructor|\\ud[89a-f]/.test(JSON.stringify(frame));

for (const codec of ["content-length", "ndjson"] as Codec[]) {
  const encode = (frames: object[]): Buffer =>
    Buffer.from(frames.map((frame) => ENCODE[codec](frame)).join(""));

  verifies("wire.frame.split", `${codec}: decodes the same frames from single bytes`, async () => {
    const bytes = encode(UNICODE);
    const single_bytes = Array.from(bytes, (_byte, index) => bytes.subarray(index, index + 1));
    expect(await decodeAll(codec, single_bytes)).toEqual({ frames: UNICODE, error: undefined });
  });

  verifies(
    "wire.frame.split",
    `${codec}: decodes the same frames for a split at every position, even inside a character`,
    async () => {
      const bytes = encode(UNICODE);
      for (let position = 0; position <= bytes.length; position++) {
        const decoded = await decodeAll(codec, splitAt(bytes, [position]));
        expect(decoded, `cut at ${position}`).toEqual({ frames: UNICODE, error: undefined });
      }
    },
  );

  verifies("wire.frame.split", `${codec}: decodes 1,000 frames from one chunk`, async () => {
    const frames = Array.from({ length: 1_000 }, (_, index) => ({ index, text: `ä${index}` }));
    expect(await decodeAll(codec, [encode(frames)])).toEqual({ frames, error: undefined });
  });

  verifies("wire.frame.split", `${codec}: decodes any frames with any splits`, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(any_frame, { maxLength: 8 }),
        fc.array(fc.nat(100_000), { maxLength: 40 }),
        async (raw, positions) => {
          const frames = raw.filter(isDecodable).map(toWellFormed);
          const decoded = await decodeAll(codec, splitAt(encode(frames), positions));
          expect(decoded).toEqual({ frames, error: undefined });
        },
      ),
      { numRuns: 500, seed: 20_260_416 },
    );
  });
}
