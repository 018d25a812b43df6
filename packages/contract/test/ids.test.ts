import { randomFillSync } from "node:crypto";
import { createIdSource, isId } from "@backplane/contract";
import { expect, test } from "vitest";

const random = (bytes: Uint8Array) => void randomFillSync(bytes);

test("ids of one source sort in the order they were made, also when the clock steps back", () => {
  let now = 1_000_000;
  const ids = createIdSource(() => now, random);
  const made: string[] = [];
  for (let i = 0; i < 5_000; i++) {
    if (i % 100 === 0) now += i % 3 === 0 ? -50 : 7;
    made.push(ids.next("invocation"));
  }
  expect([...made].sort()).toEqual(made);
  expect(new Set(made).size).toBe(made.length);
});

test("an id says what it names", () => {
  const ids = createIdSource(Date.now, random);
  expect(isId("package", ids.next("package"))).toBe(true);
  expect(isId("package", ids.next("binding"))).toBe(false);
  expect(isId("package", "pkg_short")).toBe(false);
});
