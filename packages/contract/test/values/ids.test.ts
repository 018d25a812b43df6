import { randomFillSync } from "node:crypto";
import { createIdSource, idAt, isId } from "@backplane/contract";
import { expect, test } from "vitest";

const random = (bytes: Uint8Array) => void randomFillSync(bytes);

test("ids of one source sort in the order of creation, even if the clock steps back", () => {
  let now = 1_000_000;
  const ids = createIdSource(() => now, random);
  const ids_in_order: string[] = [];
  for (let i = 0; i < 5_000; i++) {
    if (i % 100 === 0) now += i % 3 === 0 ? -50 : 7;
    ids_in_order.push(ids.next("invocation"));
  }
  expect([...ids_in_order].sort()).toEqual(ids_in_order);
  expect(new Set(ids_in_order).size).toBe(ids_in_order.length);
});

test("the prefix of an id identifies its type", () => {
  const ids = createIdSource(Date.now, random);
  expect(isId("package", ids.next("package"))).toBe(true);
  expect(isId("package", ids.next("binding"))).toBe(false);
  expect(isId("package", "pkg_short")).toBe(false);
});

test("the first ten digits encode the millisecond", () => {
  const timeOf = (ms: number) =>
    createIdSource(() => ms, random)
      .next("run")
      .slice(4, 14);
  expect([0, 31, 32, 2 ** 48 - 1].map(timeOf)).toEqual([
    "0000000000",
    "000000000z",
    "0000000010",
    "7zzzzzzzzz",
  ]);
});

test("draws new random digits for each millisecond", () => {
  let now = 0;
  let drawn = 0;
  const ids = createIdSource(
    () => now,
    (bytes) => {
      drawn += bytes.length;
      randomFillSync(bytes);
    },
  );
  const tails = new Set<string>();
  for (now = 1; now <= 1_000; now++) tails.add(ids.next("run").slice(14));
  expect(tails.size).toBe(1_000);
  expect(drawn).toBeGreaterThanOrEqual(1_000 * 16);
});

test("the id bound of a millisecond sorts before ids of that millisecond and after ids of the previous one", () => {
  for (const ms of [1, 1_000, 1_763_000_000_000]) {
    const created = (at: number) => createIdSource(() => at, random).next("invocation");
    expect(idAt("invocation", ms) < created(ms)).toBe(true);
    expect(idAt("invocation", ms) > created(ms - 1)).toBe(true);
  }
});
