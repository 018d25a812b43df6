import type { Json, JsonObject } from "@backplane/contract";
import fc from "fast-check";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { OffThreadParser } from "../../src/codecs/off-thread-parser.ts";
import { measureLoopLag } from "../support/loop-lag.ts";
import { type Codec, decodeAll, makeFrame, splitAt } from "./decode-all.ts";

const LIMIT = { frame_bytes: 64 * 1024 * 1024 };
const encode = (codec: Codec, frame: object): Buffer =>
  codec === "ndjson" ? Buffer.from(`${JSON.stringify(frame)}\n`) : makeFrame(JSON.stringify(frame));

/** Creates a frame of at least about `bytes` bytes with many rows, nested lists and a long string. */
function createLargeFrame(bytes: number): JsonObject {
  const rows: Json[] = [];
  for (let i = 0; rows.length * 60 < bytes; i++)
    rows.push({ id: i, name: `ä${i}`, tags: ["a", null, i % 2 === 0] });
  return {
    first: 1,
    rows,
    deep: { list: [{ more: rows.slice(0, 2000) }] },
    text: "x".repeat(300_000),
    last: [],
  };
}

for (const codec of ["content-length", "ndjson"] as Codec[]) {
  verifies(
    "wire.frame.limits",
    `${codec}: accepts frames over 1 MiB only if configured, and keeps their order`,
    async () => {
      const large = createLargeFrame(2_000_000);
      const bytes = Buffer.concat([
        encode(codec, { n: 1 }),
        encode(codec, large),
        encode(codec, { n: 2 }),
        encode(codec, large),
        encode(codec, { n: 3 }),
      ]);
      const chunks = splitAt(
        bytes,
        Array.from({ length: 100 }, (_, index) => index * 65_536),
      );
      const decoded = await decodeAll(codec, chunks, LIMIT);
      expect(decoded).toEqual({ frames: [{ n: 1 }, large, { n: 2 }, large, { n: 3 }], error: undefined });
      const refused = await decodeAll(codec, chunks);
      expect(refused).toMatchObject({ frames: [{ n: 1 }], error: { code: "frame_too_large" } });
    },
  );

  verifies("wire.frame.limits", `${codec}: rejects an invalid large frame like a small one`, async () => {
    const bad = encode(codec, { text: "x".repeat(1_100_000), list: [1] });
    bad[bad.length - 5] = 0x7d;
    const decoded = await decodeAll(codec, [encode(codec, { n: 1 }), bad, encode(codec, { n: 2 })], LIMIT);
    expect(decoded).toMatchObject({ frames: [{ n: 1 }], error: { code: "frame_invalid" } });
  });
}

verifies("wire.frame.limits", "parses 8 MiB of small values without blocking the event loop", async () => {
  const bytes = encode("content-length", createLargeFrame(8_000_000));
  let frames = 0;
  const lag = await measureLoopLag(async () => {
    frames += (await decodeAll("content-length", [bytes], LIMIT)).frames.length;
  });
  expect(frames).toBe(1);
  expect(lag).toBeLessThan(50);
});

test("transfers any value unchanged", async () => {
  const parser = new OffThreadParser();
  const arrays = fc.array(fc.jsonValue({ maxDepth: 3 }), { maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(arrays, fc.nat(3), async (values, exponent) => {
      const value = JSON.parse(
        JSON.stringify({
          values,
          again: Array.from({ length: 10 ** exponent }, () => values),
          end: values.at(-1) ?? null,
        }),
      ) as Json;
      const text = JSON.stringify(value);
      if (/__proto__|"constructor"|\\ud/.test(text)) return;
      expect(await parser.parse(Buffer.from(text), 64)).toEqual({ value });
    }),
    { numRuns: 60, seed: 7 },
  );
  parser.close();
});

test("fails the frame whose worker is closed and parses the next one with a new worker", async () => {
  const parser = new OffThreadParser();
  const bytes = Buffer.from(JSON.stringify(createLargeFrame(3_000_000)));
  const parsing = parser.parse(bytes, 64);
  parser.close();
  await expect(parsing).rejects.toMatchObject({ code: "frame_invalid" });
  expect(await parser.parse(Buffer.from('{"a":1}'), 64)).toEqual({ value: { a: 1 } });
  parser.close();
});
