import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { conditionsOf, findModuleEntry, findModuleFile } from "../../src/kernel-plugins/resolve-module.ts";

test("reads conditions in each form of Node's option", () => {
  const argv = [
    "--require",
    "x",
    "--conditions=a",
    "--conditions",
    "b",
    "-C",
    "c",
    "-C=d",
    "--conditions",
    "a",
  ];
  expect(conditionsOf(argv)).toEqual(["a", "b", "c", "d"]);
  expect(conditionsOf(["--conditions"])).toEqual([]);
});

test.each([
  [{}, [], "index.js"],
  [{ main: "lib/a.js" }, [], "lib/a.js"],
  [{ exports: "./a.js" }, [], "./a.js"],
  [{ exports: { ".": "./a.js", "./b": "./b.js" } }, [], "./a.js"],
  [{ exports: { import: "./a.mjs", default: "./a.cjs" } }, [], "./a.mjs"],
  [{ exports: { ".": { source: "./a.ts", types: "./a.d.ts", default: "./a.js" } } }, [], "./a.js"],
  [{ exports: { ".": { source: "./a.ts", types: "./a.d.ts", default: "./a.js" } } }, ["source"], "./a.ts"],
  [{ exports: { ".": { node: { require: "./a.cjs" }, default: "./a.js" } } }, [], "./a.js"],
  [{ exports: { ".": ["../up.js", "./a.js"] } }, [], "./a.js"],
  [{ exports: { "./b": "./b.js" } }, [], null],
  [{ exports: { ".": null } }, [], null],
  [{ exports: { ".": "../outside.js" } }, [], null],
])("resolves the entry of %j under the conditions %j to %j", (manifest, conditions, expected) => {
  expect(findModuleEntry(manifest, conditions)).toBe(expected);
});

test("accepts only files inside the package, after following links", async () => {
  const root = mkdtempSync(join(tmpdir(), "backplane-module-"));
  const dir = join(root, "package");
  mkdirSync(join(dir, "lib"), { recursive: true });
  writeFileSync(join(dir, "lib/a.js"), "");
  writeFileSync(join(root, "outside.js"), "");
  symlinkSync("../outside.js", join(dir, "link.js"));
  symlinkSync("lib/a.js", join(dir, "inner.js"));
  symlinkSync(dir, join(root, "linked"));
  expect(await findModuleFile(dir, "./lib/a.js")).toEqual({ file: join(dir, "lib/a.js") });
  expect(await findModuleFile(dir, "inner.js")).toEqual({ file: join(dir, "lib/a.js") });
  // The link to the package is kept, because it may point to a newer version later.
  expect(await findModuleFile(join(root, "linked"), "lib/a.js")).toEqual({
    file: join(root, "linked/lib/a.js"),
  });
  for (const path of ["../outside.js", "link.js", "/etc/passwd", "lib", "none.js", "."]) {
    expect(await findModuleFile(dir, path)).toHaveProperty("problem");
  }
  rmSync(root, { recursive: true });
});
