/** `npm run mutate` takes too long for every run. These tests check that each mutant still applies to the sources. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { transformSync } from "esbuild";
import { expect, test } from "vitest";
import { MUTANTS } from "../scripts/mutants/all.ts";
import { SURVIVORS } from "../scripts/mutants/survivors.ts";

test("every mutant changes exactly one place in an existing file", () => {
  const stale = MUTANTS.filter(({ file, from, to }) => {
    if (from === to || !existsSync(file)) return true;
    return readFileSync(file, "utf8").split(from).length !== 2;
  });
  expect(stale.map(({ name, file }) => `${name} (${file})`)).toEqual([]);
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
  expect(broken.map(({ name, file }) => `${name} (${file})`)).toEqual([]);
});

/**
 * A mutant that uses an outdated name throws a ReferenceError. Code that handles errors may hide the error, and then the
 * mutant breaks a different rule than the one that it is named after.
 */
test("every mutant of a TypeScript file uses only names of its file", () => {
  const unknown = MUTANTS.flatMap(({ name: mutant, file, to }) => {
    if (!file.endsWith(".ts")) return [];
    const source = readFileSync(file, "utf8");
    const names = findNames(to).filter((name) => !GLOBAL_NAMES.has(name) && !(name in globalThis));
    return names
      .filter((name) => names.indexOf(name) === names.lastIndexOf(name) && !hasName(source, name))
      .map((name) => `${mutant}: ${name}`);
  });
  expect(unknown).toEqual([]);
  expect(findNames('from = to ?? pending.last_seq; const { a: b } = f("x y");')).toEqual([
    "from",
    "to",
    "pending",
    "const",
    "b",
    "f",
  ]);
});

/** Keywords, types, and the syntax of property escapes. */
const GLOBAL_NAMES = new Set(
  (
    "as async await break catch const continue else false finally for if in instanceof let new null number of " +
    "return static string this throw true try typeof unknown void while boolean never Record ReturnType Cc"
  ).split(" "),
);

/** The identifiers of a piece of code, without property names, strings and names that start with an underscore. */
function findNames(code: string): string[] {
  const plain = code.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`|\/\/.*|\/(?![ *]).+?\//g, "");
  return [...plain.matchAll(/(?<![\w$.#])[A-Za-z$][\w$]*(?![\w$])(?!\s*:)/g)].map(([name]) => name);
}

function hasName(source: string, name: string): boolean {
  return new RegExp(`(?<![\\w$])${name.replaceAll("$", "\\$")}(?![\\w$])`).test(source);
}

test("every mutant names tests that exist", () => {
  const missing = MUTANTS.flatMap(({ name, tests }) =>
    tests.length === 0
      ? [`${name}: none`]
      : tests.filter((file) => !existsSync(file)).map((file) => `${name}: ${file}`),
  );
  expect(missing).toEqual([]);
});

/** Titles may be in a file that the test file imports, such as the cases that both stores run. */
test("every filter matches a title in the folder of its tests", () => {
  const unmatched = MUTANTS.filter(({ only, tests }) => {
    if (only === undefined) return false;
    const folders = new Set(tests.map((file) => dirname(file)));
    const files = [...folders].flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)));
    const sources = files.filter((file) => file.endsWith(".ts"));
    return !sources.some((file) => new RegExp(only).test(readFileSync(file, "utf8")));
  });
  expect(unmatched.map(({ name, only }) => `${name}: ${only}`)).toEqual([]);
});

test("no two mutants have the same name", () => {
  const names = MUTANTS.map(({ name }) => name);
  expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
});

test("every accepted survivor is a mutant and has a reason", () => {
  const names = new Set(MUTANTS.map(({ name }) => name));
  const invalid = Object.entries(SURVIVORS).filter(
    ([name, reason]) => !names.has(name) || reason.trim() === "",
  );
  expect(invalid).toEqual([]);
});
