import { canonicalJson } from "@backplane/contract";
import fc from "fast-check";
import { expect, test } from "vitest";

const withKeyOrder = (value: unknown, order: (keys: string[]) => string[]): unknown => {
  if (Array.isArray(value)) return value.map((item) => withKeyOrder(item, order));
  if (typeof value !== "object" || value === null) return value;
  const record = value as Record<string, unknown>;
  return Object.fromEntries(order(Object.keys(record)).map((key) => [key, withKeyOrder(record[key], order)]));
};

test("canonical JSON is independent of the order of keys and preserves the value", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const plain = JSON.parse(JSON.stringify(value)) as unknown;
      const canonical = canonicalJson(plain);
      expect(canonicalJson(withKeyOrder(plain, (keys) => keys.toReversed()))).toBe(canonical);
      expect(JSON.parse(canonical)).toEqual(plain);
    }),
  );
});

test("different values have different canonical JSON", () => {
  const values = [null, 0, "", "0", false, [], {}, [null], { a: null }, { a: 1 }, { b: 1 }, [1, 2], [2, 1]];
  expect(new Set(values.map(canonicalJson)).size).toBe(values.length);
});
