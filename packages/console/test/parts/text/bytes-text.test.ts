import { expect, test } from "vitest";
import { bytesText } from "../../../src/parts/text/bytes-text.ts";

test("writes an amount of bytes in the unit that a person would use", () => {
  const texts = [0, 820, 1_000, 12_400, 999_499, 999_500, 3_420_000, 999_949_999, 999_950_000].map(bytesText);
  expect(texts).toEqual([
    "0 B",
    "820 B",
    "1 kB",
    "12 kB",
    "999 kB",
    "1.0 MB",
    "3.4 MB",
    "999.9 MB",
    "1.0 GB",
  ]);
});
