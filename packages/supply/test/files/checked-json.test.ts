import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readLocalList, writeLocalList } from "../../src/kernel-plugins/local-list.ts";
import { readFolderList, writeFolderList } from "../../src/workspace-folders/folder-list.ts";

let dir: string;
beforeAll(() => {
  dir = createMemoryFolder("backplane-checked-json-");
});
afterAll(() => rmSync(dir, { recursive: true }));

const edit = (file: string, from: string, to: string) =>
  writeFileSync(file, readFileSync(file, "utf8").replace(from, to));

test("refuses a list of trusted folders with a changed byte, and accepts one without a checksum", async () => {
  const file = join(dir, "workspaces.json");
  await writeFolderList(file, []);
  expect(await readFolderList(file)).toEqual([]);
  edit(file, '"folders"', '"folderz"');
  await expect(readFolderList(file)).rejects.toMatchObject({
    code: "config.invalid",
    message: expect.stringContaining("does not match its checksum"),
  });
  writeFileSync(file, '{"folders": []}');
  expect(await readFolderList(file)).toEqual([]);
});

test("reports a list of local plugins with a changed byte, and accepts one without a checksum", async () => {
  await writeLocalList(dir, [{ path: "/srv/plugin", editable: true }]);
  expect(await readLocalList(dir)).toEqual({
    folders: [{ path: "/srv/plugin", editable: true }],
    problem: null,
  });
  edit(join(dir, "local.json"), "/srv/plugin", "/srv/plugim");
  expect(await readLocalList(dir)).toEqual({
    folders: [],
    problem: expect.stringContaining("does not match its checksum"),
  });
  writeFileSync(join(dir, "local.json"), '{"folders": [{"path": "/by/hand", "editable": true}]}');
  expect((await readLocalList(dir)).folders).toHaveLength(1);
});
