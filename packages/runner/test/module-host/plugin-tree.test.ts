import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { PluginEntry, PluginOrigin } from "@backplane/contract";
import { expect, onTestFinished, test } from "vitest";
import { resolvePluginTree } from "../../src/module-host/plugin-tree.ts";

function createFolder(files: Record<string, string>): string {
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
  const root = createFolder({
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
  const root = createFolder({
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

/** A workspace whose linked packages contain the gateway's home, or are a part of it. */
function createWorkspaceWithHome(): { root: string; home: string } {
  const root = createFolder({
    "package.json": '{"workspaces": ["packages/*"]}',
    "packages/probe/plugin.mjs": "",
    "packages/probe/home/secret.key": "",
    "packages/shared/home/secret.key": "",
    "node_modules/home/secret.key": "",
    ".home/blobs/index.js": "",
  });
  for (const target of ["../packages/shared", "../.home", "../.home/blobs"])
    symlinkSync(target, join(root, "node_modules", basename(target)));
  return { root, home: join(root, ".home") };
}

test("hides the gateway's folders inside linked packages and ignores links into them", async () => {
  const { home, root } = createWorkspaceWithHome();
  const own = [
    home,
    ...["packages/probe/home", "packages/shared/home", "node_modules/home"].map((path) => join(root, path)),
  ];
  const tree = await resolvePluginTree(entry("local", join(root, "packages/probe")), own);
  expect(tree.binds.map(({ target }) => target)).toEqual(["/plugin/node_modules", "/plugin/packages/shared"]);
  expect(tree.hidden).toEqual([
    "/plugin/packages/probe/home",
    "/plugin/packages/shared/home",
    "/plugin/node_modules/home",
  ]);
});

test.runIf(process.getuid!() === 0)(
  "hides the gateway's folders in the other mounted folders of a plugin that runs from a copy",
  async () => {
    const { root } = createWorkspaceWithHome();
    const folder = join(root, "packages/probe");
    const own = [folder, join(root, "packages/shared"), join(root, "node_modules")].map((path) =>
      join(path, "home"),
    );
    chmodSync(folder, 0o700);
    const tree = await resolvePluginTree(entry("local", folder), own);
    expect(tree).toMatchObject({ needs_copy: true, own_folders: own });
    // The copy does not contain the first one, so nothing can be mounted over it.
    expect(tree.hidden).toEqual(["/plugin/packages/shared/home", "/plugin/node_modules/home"]);
  },
);

test("rejects a plugin whose folder is the gateway's own folder, directly or through a link", async () => {
  const root = createFolder({ "home/plugin.mjs": "" });
  symlinkSync("home", join(root, "linked"));
  for (const dir of ["home", "linked"]) {
    await expect(
      resolvePluginTree(entry("local", join(root, dir)), [join(root, "home")]),
    ).rejects.toMatchObject({
      code: "launch_failed",
      message: "The folder of probe is the gateway's own folder.",
    });
  }
});

test("hides the gateway's home inside the folder and rejects a module that links out of it", async () => {
  const root = createFolder({ "plugin.mjs": "", "deep/home/admin.token": "" });
  const tree = await resolvePluginTree(entry("local", root), [join(root, "deep/home"), "/elsewhere"]);
  expect(tree.hidden).toEqual(["/plugin/deep/home"]);
  const outside = createFolder({ "real.mjs": "" });
  rmSync(join(root, "plugin.mjs"));
  symlinkSync(join(outside, "real.mjs"), join(root, "plugin.mjs"));
  await expect(resolvePluginTree(entry("local", root), [])).rejects.toMatchObject({
    code: "launch_failed",
    message: expect.stringContaining("outside its folder"),
  });
});
