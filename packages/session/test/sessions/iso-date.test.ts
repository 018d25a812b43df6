import fc from "fast-check";
import { expect, test } from "vitest";
import { isoDate } from "../../src/sessions/iso-date.ts";

test("every date is spelled as Date spells it, whatever was asked before", () => {
  const around = fc.integer({ min: 0, max: 3_000 }).map((ms) => 1_793_527_199_000 + ms);
  const any = fc.integer({ min: -8.64e15, max: 8.64e15 });
  const parts = fc.integer({ min: 0, max: 2_000_000 }).map((n) => 1_793_527_199_000 + n / 7);
  fc.assert(
    fc.property(fc.array(fc.oneof(around, any, parts), { minLength: 1, maxLength: 40 }), (moments) => {
      for (const ms of moments) expect(isoDate(ms)).toBe(new Date(ms).toISOString());
    }),
  );
  expect(() => isoDate(Number.NaN)).toThrow(RangeError);
  expect(isoDate(0)).toBe("1970-01-01T00:00:00.000Z");
});
