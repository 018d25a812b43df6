import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { forbiddenImports, readImportTable } from "./support/import-table.ts";

const rules = readImportTable(readFileSync("ARCHITECTURE.md", "utf8"));

test("no room imports what the table of ARCHITECTURE.md does not allow", () => {
  expect(rules.length).toBeGreaterThanOrEqual(12);
  expect(forbiddenImports(".", rules)).toEqual([]);
});

test("the check finds every kind of forbidden import", () => {
  expect(forbiddenImports("test/fixtures/bad-room", rules)).toEqual([
    "packages/contract/src/index.ts: contract may not use node:fs",
    "packages/kernel/src/index.ts: ../../store/src/thing.ts leaves the room",
    "packages/kernel/src/index.ts: kernel may not import @backplane/store",
    "packages/kernel/src/index.ts: kernel may not use node:child_process",
    "packages/store/src/thing.ts: left-pad is no dependency of store",
    "packages/store/src/thing.ts: store may not import @backplane/kernel",
    "plugins/sly/src/plugin.ts: plugins may not import @backplane/kernel",
  ]);
});
