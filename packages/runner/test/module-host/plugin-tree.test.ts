import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { PluginEntry, PluginOrigin } from "@backplane/contract";
import { expect, onTestFinished, test } from "vitest";
import { resolvePluginTree } from "../../src/module-host/plugin-tree.ts";

function folderWith(files: Record<string, string>): string {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "backplane-tree-")));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  chmodSync(root, 0o755);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

const entry = (origin: PluginOrigin, dir: string, source = dir): PluginEntry => ({
  name: "probe",
  version: "1.0.0",
  category: "tool",
  origin,
  source,
  dir,
  module: join(dir, "plugin.mjs"),
});

test("keeps the path of an installed package in its node_modules", async () => {
  const root = folderWith({
    "npm/g1/node_modules/@acme/probe/plugin.mjs": "",
    "npm/g1/node_modules/dep/index.js": "",
    "state/other/secret": "",
  });
  symlinkSync("npm/g1/node_modules", join(root, "node_modules"));
  const tree = await resolvePluginTree(
    entry("installed", join(root, "node_modules/@acme/probe"), "@acme/probe"),
    [],
  );
  expect(tree).toMatchObject({
    folder: join(root, "npm/g1/node_modules/@acme/probe"),
    folder_at: "/plugin/node_modules/@acme/probe",
    module: "/plugin/node_modules/@acme/probe/plugin.mjs",
    binds: [{ source: join(root, "npm/g1/node_modules"), target: "/plugin/node_modules", writable: false }],
  });
  const trace = "at run (file:///plugin/node_modules/dep/index.js:1:2)\n    at /plugin/x.js, not /plugins/x";
  expect(tree.toHostPaths(trace)).toBe(
    `at run (file://${root}/npm/g1/node_modules/dep/index.js:1:2)\n    at ${root}/npm/g1/x.js, not /plugins/x`,
  );
});

test("shows a linked folder alone, or with the workspace's node_modules and the packages linked from there", async () => {
  const root = folderWith({
    ".env": "SECRET=1",
    "package.json": '{"workspaces": ["packages/*"]}',
    "packages/probe/plugin.mjs": "",
    "packages/shared/index.js": "",
    "packages/unused/index.js": "",
    "node_modules/dep/index.js": "",
    "node_modules/@acme/.keep": "",
  });
  symlinkSync("../../packages/shared", join(root, "node_modules/@acme/shared"));
  symlinkSync("../packages/probe", join(root, "node_modules/probe"));
  symlinkSync("/etc", join(root, "node_modules/etc"));
  symlinkSync("..", join(root, "node_modules/all"));
  const in_workspace = await resolvePluginTree(entry("local", join(root, "packages/probe")), []);
  expect(in_workspace).toMatchObject({
    folder_at: "/plugin/packages/probe",
    binds: [
      { source: join(root, "node_modules"), target: "/plugin/node_modules" },
      { source: join(root, "packages/shared"), target: "/plugin/packages/shared" },
    ],
  });
  expect(in_workspace.binds).toHaveLength(2);
  writeFileSync(join(root, "package.json"), "{}");
  const alone = await resolvePluginTree(entry("local", join(root, "packages/probe")), []);
  expect(alone).toMatchObject({ folder_at: "/plugin", module: "/plugin/plugin.mjs", binds: [], hidden: [] });
});

test("hides the gateway's home inside the folder and rejects a module that links out of it", async () => {
  const root = folderWith({ "plugin.mjs": "", "deep/home/admin.token": "" });
  const tree = await resolvePluginTree(entry("local", root), [join(root, "deep/home"), "/elsewhere"]);
  expect(tree.hidden).toEqual(["/plugin/deep/home"]);
  const outside = folderWith({ "real.mjs": "" });
  rmSync(join(root, "plugin.mjs"));
  symlinkSync(join(outside, "real.mjs"), join(root, "plugin.mjs"));
  await expect(resolvePluginTree(entry("local", root), [])).rejects.toMatchObject({
    code: "launch_failed",
    message: expect.stringContaining("outside its folder"),
  });
});
