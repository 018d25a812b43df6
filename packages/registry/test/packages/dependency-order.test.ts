import { expect, test } from "vitest";
import { sortByDependencies } from "../../src/packages/dependency-order.ts";

const node = (name: string, ...requires: string[]) => ({ name, requires });

test("sorts each plugin after those that it requires, otherwise in the given order", () => {
  const { names, cycles } = sortByDependencies([
    node("c", "b"),
    node("a"),
    node("b", "a", "absent"),
    node("d"),
  ]);
  expect(names).toEqual(["a", "b", "c", "d"]);
  expect(cycles.size).toBe(0);
});

test("reports a cycle starting at each of its members, and not for plugins that only depend on it", () => {
  const { names, cycles } = sortByDependencies([
    node("x", "a"),
    node("a", "b"),
    node("b", "c"),
    node("c", "a"),
    node("me", "me"),
  ]);
  expect(names).toEqual(["x"]);
  expect(Object.fromEntries(cycles)).toEqual({
    a: "a → b → c → a",
    b: "b → c → a → b",
    c: "c → a → b → c",
    me: "me → me",
  });
});
