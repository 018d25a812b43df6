/** The test files of a worker share its modules, so a support module is evaluated once and not once per file. */
import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const FOLDERS = ["packages/*/test", "plugins/*/test", "examples/*/test", "packages/test-kit/src", "test"];
/** At the start of a line: inside a function the hook belongs to the file that calls the function. */
const HOOK = /^(?:before|after)(?:Each|All)\(|^(?:test|verifies)\(/m;

test("support modules register no hooks and no tests when they are imported", () => {
  const modules = globSync(FOLDERS.map((folder) => `${folder}/**/*.ts`)).filter(
    (file) => !file.endsWith(".test.ts") && !file.includes("node_modules"),
  );
  expect(modules.length).toBeGreaterThan(100);
  expect(modules.filter((file) => HOOK.test(readFileSync(file, "utf8")))).toEqual([]);
});

test("a hook at the top of a module is found", () => {
  expect(HOOK.test('import x from "x";\nbeforeAll(() => {});\n')).toBe(true);
  expect(HOOK.test("function use() {\n  beforeAll(() => {});\n}\n")).toBe(false);
});
