import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { CONSOLE_CHECKS, type ConsoleCheck } from "./support/console/console-checks.ts";

/** Tests that do not exist, and checks without a test. */
function missingTests(checks: readonly ConsoleCheck[], read: (file: string) => string): string[] {
  return checks.flatMap(({ check, tests }) => {
    if (tests.length === 0) return [`${check}: no test`];
    return tests
      .filter(([file, title]) => !titlePattern(title).test(read(file)))
      .map(([file, title]) => `${check}: ${file} has no test "${title}"`);
  });
}

/** The literal of a title in the source of a test. */
function titlePattern(title: string): RegExp {
  const parts = title.split("{}").map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`["\`]${parts.join("\\$\\{[^`]+\\}")}["\`]`);
}

const readTest = (file: string) => (existsSync(file) ? readFileSync(file, "utf8") : "");

test("each of the thirty checks of the console names tests that exist under their titles", () => {
  expect(CONSOLE_CHECKS.map(({ check }) => check)).toEqual(
    Array.from({ length: 30 }, (_, index) => index + 1),
  );
  expect(missingTests(CONSOLE_CHECKS, readTest)).toEqual([]);
});

test("finds a check without a test and a test with another title", () => {
  const files: Record<string, string> = { "a.test.ts": 'test("works", () => {});' };
  const found = missingTests(
    [
      { check: 1, requirement: "", tests: [["a.test.ts", "works"]] },
      { check: 2, requirement: "", tests: [["a.test.ts", "worked"]] },
      { check: 3, requirement: "", tests: [] },
      { check: 4, requirement: "", tests: [["b.test.ts", "works"]] },
    ],
    (file) => files[file] ?? "",
  );
  expect(found).toEqual([
    '2: a.test.ts has no test "worked"',
    "3: no test",
    '4: b.test.ts has no test "works"',
  ]);
});
