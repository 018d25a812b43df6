import type { Json } from "@backplane/contract";
import { AllowRuleCreateSchema } from "@backplane/contract/schema";
import { expect, test } from "vitest";
import { matchesArguments } from "../../src/admission/argument-pattern.ts";

const matches = (pattern: string, value: Json) =>
  matchesArguments({ arguments: { a: { matches: pattern } }, other_arguments: true }, { a: value });

test.each([
  ["git *", "git status"],
  ["git *", "git log --oneline -5"],
  ["git *", "git diff main..dev"],
  ["/data/*", "/data/a/b.txt"],
  ["/data/*.md", "/data/notes...md"],
  ["https://example.com/*", "https://example.com/a?b=c#d"],
  ["*@example.com", "me@example.com"],
  ["a*b*c", "a b b c"],
  ["a*a", "aa"],
  ["exact; text", "exact; text"],
  ["*", ""],
])("the pattern %s covers %s", (pattern, value) => {
  expect(matches(pattern, value)).toBe(true);
});

test.each<[string, Json]>([
  ["git *", "git log; rm -rf ~"],
  ["git *", "git log | sh"],
  ["git *", "git log && curl x"],
  ["git *", "git log $(id)"],
  ["git *", "git log `id`"],
  ["git *", "git log > /etc/passwd"],
  ["git *", "git log < /etc/passwd"],
  ["git *", "git log\nrm x"],
  ["git *", "git log\r"],
  ["git *", "git log\u2028x"],
  ["git *", "git \u202elog"],
  ["git *", "git \0log"],
  ["git *", "git -C .. log"],
  ["git *", "git add ../x"],
  ["git *", "rm git x"],
  ["git * main *", "git log; rm main x"],
  ["/data/*", "/data/../etc/passwd"],
  ["/data/*", "/data/a/.."],
  ["/data/*", "/data/..\\etc"],
  ["/data/*", "/data/%2e%2E/etc"],
  ["/data/*", "/data"],
  ["/data/*.md", "/data/.."],
  ["/data/*", ["/data/a"]],
  ["/data/*", 7],
  ["/data/*", null],
  ["a*a", "a"],
  ["a*b*b", "ab"],
])("the pattern %s does not cover %j", (pattern, value) => {
  expect(matches(pattern, value)).toBe(false);
});

test("compares whole values, requires every listed argument, and can refuse other arguments", () => {
  const rule = (other_arguments: boolean) => ({
    arguments: { path: { equals: { b: 1, a: [1] } }, mode: { matches: "r*" } },
    other_arguments,
  });
  const input = { path: { a: [1], b: 1 }, mode: "ro" };
  for (const others of [true, false]) expect(matchesArguments(rule(others), input)).toBe(true);
  expect(matchesArguments(rule(true), { ...input, more: 1 })).toBe(true);
  expect(matchesArguments(rule(false), { ...input, more: 1 })).toBe(false);
  expect(matchesArguments(rule(true), { mode: "ro" })).toBe(false);
  expect(matchesArguments(rule(true), { ...input, path: { a: [1] } })).toBe(false);
  for (const other of [null, "ro", [input]]) expect(matchesArguments(rule(true), other)).toBe(false);
  const inherited = { arguments: { constructor: { matches: "*" } }, other_arguments: true };
  expect(matchesArguments(inherited, {})).toBe(false);
  expect(matchesArguments({ arguments: null, other_arguments: false }, { any: 1 })).toBe(true);
});

test.each([
  ["https://*.example.com/*", false],
  ["https://example.com*", false],
  ["https://*", false],
  ["https://example.com/*", true],
  ["*.example.com", true],
])("accepts the pattern %s, unless it is a URL whose host is not fixed: %s", (pattern, valid) => {
  const body = { tool: "fetch", arguments: { url: { matches: pattern } } };
  expect(AllowRuleCreateSchema.safeParse(body).success).toBe(valid);
});
