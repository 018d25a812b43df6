import type { Json } from "@backplane/contract";
import fc from "fast-check";
import { expect, test } from "vitest";
import { fitsBytes } from "../../src/config/json-size.ts";

test("agrees with the exact size of the JSON text", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.integer({ min: 1, max: 400 }), (value, limit) => {
      expect(fitsBytes(value as Json, limit)).toBe(Buffer.byteLength(JSON.stringify(value)) <= limit);
    }),
    { numRuns: 3_000 },
  );
});

test("counts control characters by their escaped length", () => {
  expect(fitsBytes("\u0001".repeat(10), 62)).toBe(true);
  expect(fitsBytes("\u0001".repeat(10), 61)).toBe(false);
});
