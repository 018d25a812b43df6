import { expect, test } from "vitest";
import { Quota } from "../../src/cognition/cognition.ts";

test("limits requests per key in any window of one minute", () => {
  let now = 0;
  const quota = new Quota({ monotonic: () => now }, 2, 60_000);
  expect([quota.take("a"), quota.take("a"), quota.take("a"), quota.take("b")]).toEqual([
    true,
    true,
    false,
    true,
  ]);
  now = 59_999;
  expect(quota.take("a")).toBe(false);
  now = 60_000;
  expect([quota.take("a"), quota.take("a"), quota.take("a")]).toEqual([true, true, false]);
});
