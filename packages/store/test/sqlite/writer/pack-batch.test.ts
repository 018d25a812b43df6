import fc from "fast-check";
import { expect, test } from "vitest";
import { createPacker, unpackBatch } from "../../../src/sqlite/writer/pack-batch.ts";
import type { WriteCall } from "../../../src/sqlite/writer/run-batch.ts";

const pack = createPacker();

test("unpacks a batch to the same calls", () => {
  // The store writes neither -0 nor undefined.
  const plain = fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)) as unknown);
  fc.assert(
    fc.property(fc.array(plain), (inputs) => {
      const calls = inputs.map((input) => ({ name: "openInvocation", input }) as WriteCall);
      expect(unpackBatch(pack(calls))).toEqual(calls);
    }),
    { numRuns: 300 },
  );
});

test("keeps a key named __proto__", () => {
  const input = JSON.parse('{"__proto__":{"polluted":true},"a":1}') as unknown;
  const [call] = unpackBatch(pack([{ name: "openInvocation", input } as WriteCall]));
  const unpacked = call!.input as object;
  expect(Object.getPrototypeOf(unpacked)).toBe(Object.prototype);
  expect(JSON.stringify(unpacked)).toBe(JSON.stringify(input));
});

test("separates strings of any content", () => {
  const strings = ["", "ü", "\u0000", "\ud800", "\u{1F511}", "a".repeat(10_000)];
  const calls: WriteCall[] = strings.map((input) => ({
    name: "appendProgress",
    input: [[input, 2 ** 53 - 1, null]],
  }));
  expect(unpackBatch(pack(calls))).toEqual(calls);
});

test("writes a key once for all calls of a batch", () => {
  const calls: WriteCall[] = Array.from({ length: 5 }, (_, n) => ({
    name: "appendProgress",
    input: { outcome: n },
  }));
  const packet = pack(calls);
  expect(packet.text.match(/outcome/g)).toHaveLength(1);
  expect(unpackBatch(packet)).toEqual(calls);
});

test("packs the next batch correctly after one that outgrew the array", () => {
  const many: WriteCall[] = [
    { name: "appendProgress", input: Array.from({ length: 70_000 }, (_, n) => [n, `${n}`]) },
  ];
  const few: WriteCall[] = [{ name: "appendProgress", input: [["a", 1, null]] }];
  const first = pack(few);
  expect(unpackBatch(pack(many))).toEqual(many);
  expect(unpackBatch(pack(few))).toEqual(few);
  expect(unpackBatch(first)).toEqual(few);
});
