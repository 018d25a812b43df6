import fc from "fast-check";
import { expect, test } from "vitest";
import { type Deadline, Deadlines } from "../../src/time/deadlines.ts";
import { ManualClock } from "../support/manual-clock.ts";

test("runs each deadline on time and in order, even if others are cleared", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(500), fc.boolean()), { maxLength: 60 }), (plan) => {
      const clock = new ManualClock();
      const deadlines = new Deadlines(clock);
      const ran: [number, number][] = [];
      const entries: Deadline[] = plan.map(([delay]) =>
        deadlines.set(delay, () => ran.push([delay, clock.monotonic()])),
      );
      plan.forEach(([, clear], i) => {
        if (clear) deadlines.clear(entries[i]!);
      });
      clock.advance(1_000);
      const expected = plan.filter(([, clear]) => !clear).map(([delay]) => delay);
      expect(ran.map(([delay]) => delay)).toEqual(expected.sort((a, b) => a - b));
      expect(ran.every(([delay, at]) => delay === at)).toBe(true);
      expect(deadlines.size).toBe(0);
      expect(clock.pending).toBe(0);
    }),
  );
});

test("shares one timer between all deadlines and clears it with the last one", () => {
  const clock = new ManualClock();
  const deadlines = new Deadlines(clock);
  const entries = Array.from({ length: 1_000 }, (_, i) => deadlines.set(1_000 + i, () => {}));
  expect(clock.pending).toBe(1);
  expect(clock.timers_set).toBe(1);
  for (const entry of entries) deadlines.clear(entry);
  expect(clock.pending).toBe(0);
  deadlines.clear(entries[0]!);
  expect(deadlines.size).toBe(0);
});
