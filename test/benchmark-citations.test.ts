/**
 * A micro-optimization makes code harder to read, so it stays only where a benchmark measures it: each file that uses
 * `MaybePromise` names the row of the benchmark, and every named row exists.
 */
import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const CITATION = /\bbenchmarks? ([a-z][\w.-]*\w)(?:(?:, | and )([a-z]+\.[\w.-]*\w))*/gi;
const MAYBE_PROMISE = /\bMaybePromise</;

/** Files that only take functions of the store as parameters, and files that describe what plugins may return. */
const EXEMPT = [
  "packages/contract/src/plugins/instrument.ts",
  "packages/contract/src/plugins/kernel-plugin.ts",
  "packages/door/src/catalog/explain.ts",
  "packages/door/src/catalog/hidden-tools.ts",
  "packages/servers/src/instruments/dependencies.ts",
];

const sources = globSync("{packages,plugins}/*/src/**/*.ts", { exclude: ["**/node_modules/**"] }).map(
  (file) => ({ file, text: readFileSync(file, "utf8") }),
);

function citedRows(text: string): string[] {
  // A citation may continue on the next line of its comment.
  return [...text.replace(/\n\s*(?:\*|\/\/) /g, " ").matchAll(CITATION)].flatMap((match) =>
    match[0].split(/, | and | /).slice(1),
  );
}

test("every file that uses MaybePromise cites a benchmark", () => {
  const users = sources.filter(({ text }) => MAYBE_PROMISE.test(text));
  expect(users.length).toBeGreaterThan(15);
  const uncited = users.filter(({ text }) => citedRows(text).length === 0).map(({ file }) => file);
  expect(uncited.toSorted()).toEqual(EXEMPT);
});

test("every cited benchmark is a row that `npm run bench` prints", () => {
  const code = globSync("bench/src/**/*.ts").map((file) => readFileSync(file, "utf8"));
  const rows = new Set(
    code.flatMap((text) => [...text.matchAll(/["`]([a-z]+\.[a-z.-]+)["`]/g)].map(([, row]) => row)),
  );
  const cited = sources.flatMap(({ text }) => citedRows(text));
  expect(cited.length).toBeGreaterThan(30);
  expect([...new Set(cited)].filter((row) => !rows.has(row))).toEqual([]);
  expect(citedRows("(benchmarks http.invoke, no.such-row)").filter((row) => !rows.has(row))).toEqual([
    "no.such-row",
  ]);
});
