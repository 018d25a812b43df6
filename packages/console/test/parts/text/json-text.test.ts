import { expect, test } from "vitest";
import { jsonParts } from "../../../src/parts/text/json-text.ts";

test("colors keys, texts, numbers and literals of JSON without changing it", () => {
  const text = JSON.stringify({ "a: b": 'x "y" 1 true', n: -1.5e3, ok: null }, null, 2);
  const parts = jsonParts(text);
  expect(parts.map((part) => part.text).join("")).toBe(text);
  expect(parts.filter(({ kind }) => kind !== "plain").map(({ kind }) => kind)).toEqual([
    "key",
    "string",
    "key",
    "number",
    "key",
    "literal",
  ]);
});
