import {
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TrustedFolder } from "@backplane/contract";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { createFolderAccess } from "../../src/index.ts";

const base = mkdtempSync(join(tmpdir(), "backplane-workspaces-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));
let count = 0;

function createWorkspace(): {
  path: string;
  folders: ReturnType<typeof createFolderAccess>;
  list: string;
} {
  const path = join(base, `w${count}`);
  const list = join(base, `list${count++}.json`);
  mkdirSync(join(path, "tools"), { recursive: true });
  writeFileSync(join(path, "tools/a.ts"), "export default {};");
  return { path, list, folders: createFolderAccess(list) };
}

test("lists the tools folder of a workspace and all files of a plugin", async () => {
  const { path, folders } = createWorkspace();
  writeFileSync(join(path, "readme.md"), "words");
  const listNames = async (kind: "workspace" | "plugin") =>
    (await folders.survey(path, kind)).files.map((file) => file.path);
  expect(await listNames("workspace")).toEqual(["tools/a.ts"]);
  expect(await listNames("plugin")).toEqual(["readme.md", "tools/a.ts"]);
  expect(await folders.readText(path, "tools/a.ts")).toBe("export default {};");
  expect(await folders.readText(path, "tools/none.ts")).toBeNull();
  const [file] = (await folders.survey(path, "workspace")).files;
  expect(await folders.readText(path, "tools/a.ts", file!.sha256)).toBe("export default {};");
  // Only the listed content is returned.
  writeFileSync(join(path, "tools/a.ts"), "export default { harmless: true };");
  await expect(folders.readText(path, "tools/a.ts", file!.sha256)).rejects.toMatchObject({
    code: "workspace.changed",
  });
});

test("refuses a path that is not a folder with tool files", async () => {
  const { path, folders } = createWorkspace();
  await expect(folders.resolve("relative")).rejects.toMatchObject({ code: "workspace.not_found" });
  await expect(folders.resolve(join(path, "tools/a.ts"))).rejects.toMatchObject({
    code: "workspace.not_found",
  });
  rmSync(join(path, "tools/a.ts"));
  await expect(folders.survey(path, "workspace")).rejects.toMatchObject({
    message: expect.stringContaining("contains no tools/*.ts"),
  });
  rmSync(join(path, "tools"), { recursive: true });
  const no_tools = { code: "workspace.not_found", message: `${path} contains no tools folder.` };
  await expect(folders.survey(path, "workspace")).rejects.toMatchObject(no_tools);
  writeFileSync(join(path, "tools"), "");
  await expect(folders.survey(path, "workspace")).rejects.toMatchObject(no_tools);
  symlinkSync(path, `${path}-link`);
  expect(await folders.resolve(`${path}-link`)).toBe(path);
});

test("refuses a folder with tools only in folders below `tools`", async () => {
  const { path, folders } = createWorkspace();
  mkdirSync(join(path, "tools/sub"));
  renameSync(join(path, "tools/a.ts"), join(path, "tools/sub/a.ts"));
  for (const kind of ["workspace", "plugin"] as const)
    await expect(folders.survey(path, kind), kind).rejects.toMatchObject({
      code: "workspace.not_found",
      message: `${path} contains tools/sub/a.ts, but only files directly in tools/ are tools; move the tools there.`,
    });
});

test("reports a folder that no longer exists", async () => {
  const { path, folders } = createWorkspace();
  rmSync(path, { recursive: true });
  for (const kind of ["workspace", "plugin"] as const)
    await expect(folders.survey(path, kind), kind).rejects.toMatchObject({
      code: "workspace.not_found",
      message: `There is no folder ${path}.`,
    });
});

test("reports a file that is removed while the folder is read as a change", async () => {
  const { path, folders } = createWorkspace();
  // Reading this file takes long enough to remove another one that is already listed.
  const large = join(path, "tools/b.bin");
  writeFileSync(large, "");
  truncateSync(large, 24 * 1024 * 1024);
  let error: unknown;
  for (let delay_ms = 1; error === undefined && delay_ms < 200; delay_ms += 4) {
    const others = ["a.ts", "z.ts"].map((name) => join(path, "tools", name));
    for (const file of others) writeFileSync(file, "");
    const surveyed = folders.survey(path, "plugin").then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    await new Promise((resolve) => setTimeout(resolve, delay_ms));
    for (const file of others) rmSync(file);
    error = await surveyed;
    if ((error as { code?: string } | undefined)?.code === "workspace.not_found") error = undefined;
  }
  expect(error).toMatchObject({
    code: "workspace.changed",
    message: `A file in ${path} was removed while it was being read.`,
  });
});

test("reports every kind of save until the watch is stopped", async () => {
  const { path, folders } = createWorkspace();
  let reports = 0;
  const stop = folders.watch(path, "workspace", () => reports++);
  onTestFinished(stop);
  const expectReportAfter = async (change: () => void) => {
    const before = reports;
    change();
    await expect.poll(() => reports, { timeout: 10_000 }).toBeGreaterThan(before);
    // Waits for further events of this change.
    await new Promise((resolve) => setTimeout(resolve, 200));
  };
  const file = join(path, "tools/a.ts");
  await expectReportAfter(() => writeFileSync(file, "in place"));
  await expectReportAfter(() => {
    writeFileSync(`${file}.tmp`, "by rename");
    renameSync(`${file}.tmp`, file);
  });
  await expectReportAfter(() => mkdirSync(join(path, "tools/deep")));
  await expectReportAfter(() => writeFileSync(join(path, "tools/deep/b.ts"), "below"));
  await expectReportAfter(() => renameSync(join(path, "tools"), join(path, "away")));
  await expectReportAfter(() => {
    mkdirSync(join(path, "tools"));
    writeFileSync(file, "a new folder");
  });
  await expectReportAfter(() => writeFileSync(file, "in the new folder"));
  stop();
  const last = reports;
  writeFileSync(file, "nobody looks");
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(reports).toBe(last);
});

const FOLDER: TrustedFolder = {
  id: "ws_1",
  org_id: "org_local",
  project_id: null,
  path: "/somewhere",
  kind: "workspace",
  watch: true,
  package_id: "workspace/somewhere-123456",
  package_version: "0.0.0-d1",
  binding_id: "bind_1",
  digest: `sha256:${"0".repeat(64)}`,
  files: [{ path: "tools/a.ts", size: 1, sha256: "00" }],
  errors: { "tools/a.ts": "why" },
  snapshots: ["pkg_1"],
  trusted_at: "2026-01-01T00:00:00.000Z",
  trusted_by: "admin",
  loaded_at: "2026-01-01T00:00:00.000Z",
};

test("stores the list of folders, and fails for a broken list", async () => {
  const { folders, list } = createWorkspace();
  expect(await folders.readList()).toEqual([]);
  await folders.writeList([FOLDER]);
  expect(await createFolderAccess(list).readList()).toEqual([FOLDER]);
  writeFileSync(list, '{"folders": [{"path": 1}]}');
  await expect(folders.readList()).rejects.toMatchObject({
    code: "config.invalid",
    message: expect.stringContaining(list),
  });
});
