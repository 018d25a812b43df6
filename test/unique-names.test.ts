/**
 * Every exported name exists once, so that a search finds the one thing that it names. The same thing has one
 * definition, in a module that all its users may import; different things have names that describe what they are.
 */
import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { declaredNames } from "./support/repository/exported-names.ts";

/** Names that several files may declare, with the reason. */
const SHARED: Readonly<Record<string, RegExp>> = {
  // The export that the gateway loads from a kernel plugin.
  plugin: /^plugins\//,
  // Each bundled kernel plugin reads its own configuration, under the same names.
  configSchema: /^plugins\//,
  CONFIG_SCHEMA: /^plugins\//,
  readConfig: /^plugins\//,
  readSettings: /^plugins\//,
  // Public in two packages for different users: options of a request, and of a call in an author's test.
  CallOptions: /^packages\/(?:client|sdk)\//,
};

/** `name: file, file` for each name that more than one file declares. */
function duplicates(files: Iterable<readonly [file: string, text: string]>): string[] {
  const places = new Map<string, string[]>();
  for (const [file, text] of files) {
    for (const name of new Set(declaredNames(text).map((declared) => declared.replace(/^type /, "")))) {
      if (SHARED[name]?.test(file) !== true) places.set(name, [...(places.get(name) ?? []), file]);
    }
  }
  return [...places].flatMap(([name, found]) => (found.length > 1 ? [`${name}: ${found.join(", ")}`] : []));
}

test("every exported name is declared in one file", () => {
  const files = globSync("{packages,plugins}/*/src/**/*.{ts,tsx}", {
    exclude: ["**/node_modules/**"],
  }).toSorted();
  expect(files.length).toBeGreaterThan(800);
  expect(duplicates(files.map((file) => [file, readFileSync(file, "utf8")]))).toEqual([]);
});

test("a name that two files declare is found", () => {
  const files = [
    ["packages/agent/src/a.ts", "export class Connection {}\nexport const plugin = 1;\n"],
    ["packages/wire/src/b.ts", "export interface Connection {}\nexport function tool(): void;\n"],
    ["packages/wire/src/c.ts", '/** export class Connection */\nexport { Connection } from "./b.ts";\n'],
    ["plugins/web/src/d.ts", "export const plugin = 1;\n"],
    ["plugins/llm-echo/src/e.ts", "export const plugin = 1;\n"],
  ] as const;
  expect(duplicates(files)).toEqual(["Connection: packages/agent/src/a.ts, packages/wire/src/b.ts"]);
});

/** Short functions that are easier to write again than to find. */
const REPEATED = /^(?:function|const) (?:isObject|isRecord)\b/m;

test("no file declares its own isObject or isRecord instead of the function of contract", () => {
  const files = globSync("{packages,plugins}/*/src/**/*.{ts,tsx}", { exclude: ["**/node_modules/**"] });
  expect(files.filter((file) => REPEATED.test(readFileSync(file, "utf8")))).toEqual([]);
  expect(REPEATED.test("\nfunction isObject(value: unknown): boolean {\n")).toBe(true);
});
