import type { Entry } from "@backplane/contract";
import { expect, test } from "vitest";
import { splitAtUserMessage } from "../../src/compaction/built-in-summary.ts";

const message = (id: number, role: string, chars: number): Entry => ({
  id,
  kind: "message",
  payload: { role, content: "x".repeat(chars) },
  meta: {},
  date: "2026-01-01T00:00:00.000Z",
});

/** Returns the ids of the entries that stay. */
const recentIds = (target: number, ...sizes: [string, number][]) =>
  splitAtUserMessage(
    sizes.map(([role, chars], n) => message(n, role, chars)),
    target,
  ).recent.map(({ id }) => id);

test("keeps recent messages, beginning with a user's message, within half of the target", () => {
  const turn: [string, number][] = [
    ["user", 400],
    ["assistant", 400],
  ];
  // Each turn is a little more than 200 tokens.
  expect(recentIds(1_000, ...turn, ...turn, ...turn, ...turn)).toEqual([4, 5, 6, 7]);
  expect(recentIds(2_000, ...turn, ...turn, ...turn, ...turn)).toEqual([2, 3, 4, 5, 6, 7]);
});

test("keeps the last message of the user whatever its size", () => {
  expect(recentIds(100, ["user", 10], ["assistant", 10], ["user", 4_000])).toEqual([2]);
  expect(recentIds(100, ["user", 10], ["assistant", 10], ["user", 4_000], ["assistant", 10])).toEqual([2, 3]);
});
