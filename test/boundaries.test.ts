import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { findFolderCycles } from "./support/repository/folder-cycles.ts";
import { findForbiddenImports, readImportTable } from "./support/repository/import-table.ts";

const rules = readImportTable(readFileSync("ARCHITECTURE.md", "utf8"));

test("modules import only what the table of ARCHITECTURE.md allows", () => {
  expect(rules.length).toBeGreaterThanOrEqual(18);
  expect(findForbiddenImports(".", rules)).toEqual([]);
});

test("the import check finds every kind of forbidden import", () => {
  expect(findForbiddenImports("test/fixtures/bad-modules", rules)).toEqual([
    "packages/contract/src/index.ts: contract may not use node:fs",
    "packages/cycle: not in the import table",
    "packages/kernel/src/index.ts: ../../store/src/thing.ts is outside its module",
    "packages/kernel/src/index.ts: kernel may not import @backplane/store",
    "packages/kernel/src/index.ts: kernel may not use node:child_process",
    "packages/store/src/thing.ts: left-pad is not a dependency of store",
    "packages/store/src/thing.ts: store may not import @backplane/kernel",
    "plugins/sly/src/plugin.ts: plugins may not import @backplane/kernel",
  ]);
});

test("the table of ARCHITECTURE.md has no cycle between modules", () => {
  const open = new Map(
    rules.map(({ module, modules }) => [module, modules.map((name) => name.split("/")[0]!)]),
  );
  for (let removed = true; removed; ) {
    removed = false;
    for (const [module, imports] of open) {
      if (imports.some((name) => open.has(name))) continue;
      open.delete(module);
      removed = true;
    }
  }
  expect([...open.keys()]).toEqual([]);
});

test("the folders of a module do not import each other in a cycle", () => {
  expect(findFolderCycles(".")).toEqual([]);
});

test("the cycle check finds cycles of values, of types and through a parent folder", () => {
  expect(findFolderCycles("test/fixtures/bad-modules")).toEqual([
    "packages/cycle/src, packages/cycle/src/parent",
    "packages/cycle/src/types-a, packages/cycle/src/types-b",
    "packages/cycle/src/values-a, packages/cycle/src/values-b, packages/cycle/src/values-c",
  ]);
});
