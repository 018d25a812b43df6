import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { expect, test } from "vitest";
import { buildMatchExpression, parseSearchTerms, toLikePattern } from "../src/search-terms.ts";

test("quotes words as terms and makes the last one a prefix", () => {
  expect(parseSearchTerms("Where is  the KEY? the key-ring")).toEqual(["where", "is", "the", "key", "ring"]);
  expect(buildMatchExpression(["where", "key"], "key")).toBe('"where" OR "key" OR "key"*');
  expect(buildMatchExpression(["where"], undefined)).toBe('"where"');
  expect(buildMatchExpression(["a"], "a")).toBe('"a"');
  expect(buildMatchExpression(["key", "𝒳"], "𝒳")).toBe('"key" OR "𝒳"');
});

test("keeps a repeated word only at its last position and stops after 32 words", () => {
  expect(parseSearchTerms("key of the key")).toEqual(["of", "the", "key"]);
  const many = Array.from({ length: 500 }, (_, index) => `w${index}`).join(" ");
  expect(parseSearchTerms(many)).toHaveLength(32);
  expect(parseSearchTerms("x".repeat(100_000))).toEqual(["x".repeat(64)]);
});

test("returns no terms for text without words", () => {
  expect(["", " ", '"', "*", "😀 !?", "\0"].flatMap(parseSearchTerms)).toEqual([]);
});

test("accepts any text that a user can type", () => {
  const database = new DatabaseSync(":memory:");
  database.exec("create virtual table words using fts5 (text)");
  const search = database.prepare("select rowid from words where words match ?");
  const operator = fc.constantFrom(
    '"',
    "'",
    "*",
    "^",
    "NEAR(",
    "AND",
    "OR",
    "NOT",
    "text:",
    "{",
    "-",
    "\0",
    "\\",
  );
  const hostile_text = fc.array(fc.oneof(operator, fc.string({ unit: "binary", maxLength: 6 })), {
    maxLength: 12,
  });
  fc.assert(
    fc.property(hostile_text, (parts) => {
      const terms = parseSearchTerms(parts.join(" "));
      if (terms.length > 0) expect(search.all(buildMatchExpression(terms, terms.at(-1)))).toEqual([]);
      expect(terms.join("")).not.toMatch(/["'*^(){}:\0\\-]/);
    }),
  );
  database.close();
});

test("treats wildcards of LIKE as plain characters", () => {
  expect(toLikePattern("50%_\\")).toBe("%50\\%\\_\\\\%");
});
