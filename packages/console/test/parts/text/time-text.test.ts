import { expect, test } from "vitest";
import { countdownText, durationText, relativeTime } from "../../../src/parts/text/time-text.ts";

test("writes durations in the unit that a person would use", () => {
  expect([0, 850, 2_400, 12_345, 185_000, 7_800_000, 3_600_000].map(durationText)).toEqual([
    "0 ms",
    "850 ms",
    "2.4 s",
    "12 s",
    "3 min 5 s",
    "2 h 10 min",
    "1 h",
  ]);
});

test("counts down to the second and stops at zero", () => {
  expect([-5, 0, 400, 65_000, 3_723_000].map(countdownText)).toEqual([
    "0:00",
    "0:00",
    "0:01",
    "1:05",
    "1:02:03",
  ]);
});

test("writes a time relative to now, and as a date if it is more than a week away", () => {
  const now = Date.UTC(2026, 4, 20, 12);
  const before = (ms: number) => relativeTime(now - ms, now);
  expect([2_000, 30_000, 180_000, 7_200_000, 30 * 86_400_000].map(before)).toEqual([
    "just now",
    "30 sec. ago",
    "3 min. ago",
    "2 hr. ago",
    "Apr 20, 2026",
  ]);
  expect(relativeTime(now + 120_000, now)).toBe("in 2 min.");
});
