/** `npm run mutate` takes too long for every run. These tests check that each mutant still applies to the sources. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { transformSync } from "esbuild";
import { expect, test } from "vitest";
import { MUTANTS } from "../scripts/defences/all.ts";
import { SURVIVORS } from "../scripts/defences/survivors.ts";

test("every mutant changes exactly one place in an existing file", () => {
  const stale = MUTANTS.filter(({ file, from, to }) => {
    if (from === to || !existsSync(file)) return true;
    return readFileSync(file, "utf8").split(from).length !== 2;
  });
  expect(stale.map(({ defence, file }) => `${defence} (${file})`)).toEqual([]);
  expect(MUTANTS.length).toBeGreaterThanOrEqual(200);
});

test("every mutant of a TypeScript file can be parsed", () => {
  const broken = MUTANTS.filter(({ file, from, to }) => {
    if (!file.endsWith(".ts")) return false;
    try {
      transformSync(
        readFileSync(file, "utf8").replace(from, () => to),
        { loader: "ts" },
      );
      return false;
    } catch {
      return true;
    }
  });
  expect(broken.map(({ defence, file }) => `${defence} (${file})`)).toEqual([]);
});

test("every mutant names tests that exist", () => {
  const missing = MUTANTS.flatMap(({ defence, tests }) =>
    tests.length === 0
      ? [`${defence}: none`]
      : tests.filter((file) => !existsSync(file)).map((file) => `${defence}: ${file}`),
  );
  expect(missing).toEqual([]);
});

/** Titles may be in a file that the test file imports, such as the cases that both stores run. */
test("every filter matches a title near its tests", () => {
  const unmatched = MUTANTS.filter(({ only, tests }) => {
    if (only === undefined) return false;
    const folders = new Set(tests.map((file) => dirname(file)));
    const files = [...folders].flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)));
    const sources = files.filter((file) => file.endsWith(".ts"));
    return !sources.some((file) => new RegExp(only).test(readFileSync(file, "utf8")));
  });
  expect(unmatched.map(({ defence, only }) => `${defence}: ${only}`)).toEqual([]);
});

test("no two mutants have the same name", () => {
  const names = MUTANTS.map(({ defence }) => defence);
  expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
});

test("every accepted survivor is a mutant and has a reason", () => {
  const names = new Set(MUTANTS.map(({ defence }) => defence));
  const invalid = Object.entries(SURVIVORS).filter(
    ([name, reason]) => !names.has(name) || reason.trim() === "",
  );
  expect(invalid).toEqual([]);
});
