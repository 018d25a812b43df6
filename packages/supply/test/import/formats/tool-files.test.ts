import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import type { PackageSource } from "@backplane/ports";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeEach, expect, test } from "vitest";
import { packageIdFromName } from "../../../src/import/formats/tool-files.ts";
import { type ContentStore, createPackageImporter, openContentStore } from "../../../src/index.ts";
import { inChunks, tar } from "../../support/tar-bytes.ts";

const base = mkdtempSync(join(tmpdir(), "backplane-tool-format-"));
const schemas = shareSchemas();
let count = 0;
let folder = "";
let store: ContentStore;
let importSource: (source: PackageSource) => ReturnType<ReturnType<typeof createPackageImporter>["import"]>;

beforeEach(() => {
  folder = join(base, `${count}-my tools`);
  store = openContentStore(join(base, `${count++}-blobs`));
  const importer = createPackageImporter({ store, schemas, host: { os: "linux", arch: "amd64" } });
  importSource = (source) => importer.import(source);
});
afterAll(async () => {
  await schemas.close();
  rmSync(base, { recursive: true, force: true });
});

function write(files: Record<string, string>): void {
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
}

const TOOL = "export default {};\n";
const fromFolder = (files: Record<string, string>) => {
  write(files);
  return importSource({ kind: "folder", path: folder });
};

test("imports a folder of tool files as a self-describing package", async () => {
  const { manifest, origin, first_installed_at } = await fromFolder({ "tools/a.ts": TOOL, "lib/b.ts": "" });
  expect(manifest).toMatchObject({
    package_id: `local/${count - 1}-my-tools`,
    version: expect.stringMatching(/^0\.0\.0-d[0-9a-f]{12}$/),
    runtime: { protocol: "module.tools" },
    exports: [],
  });
  expect(origin).toBe("folder");
  expect(first_installed_at).toBe(statSync(folder).birthtime.toISOString());
});

test("reads the name, permissions and date from package.json and install-meta.json", async () => {
  const { manifest, first_installed_at } = await fromFolder({
    "tools/a.js": TOOL,
    "package.json": JSON.stringify({
      name: "@acme/Notes",
      version: "1.2.3",
      description: "Notes.",
      license: "MIT",
    }),
    "install-meta.json": JSON.stringify({ installedAt: "2024-02-03T04:05:06Z" }),
  });
  expect(manifest).toMatchObject({
    package_id: "acme/notes",
    version: "1.2.3",
    name: "@acme/Notes",
    description: "Notes.",
    license: "MIT",
  });
  expect(first_installed_at).toBe("2024-02-03T04:05:06.000Z");
  const requesting = {
    name: "asks",
    backplane: { permissions: { network: "egress", secret_slots: ["token"] } },
  };
  const { manifest: requested } = await fromFolder({ "package.json": JSON.stringify(requesting) });
  expect(requested.runtime.permissions).toMatchObject({ network: "egress", secret_slots: ["token"] });
});

test("uses the name and date that came with an archive", async () => {
  const bytes = () => inChunks(gzipSync(tar({ name: "tools/a.mjs", body: TOOL })));
  const named = await importSource({
    kind: "archive",
    bytes: bytes(),
    name: "sent",
    born_at: "2025-01-01T00:00:00.000Z",
  });
  expect([named.manifest.package_id, named.first_installed_at]).toEqual([
    "local/sent",
    "2025-01-01T00:00:00.000Z",
  ]);
  const unnamed = await importSource({ kind: "archive", bytes: bytes() });
  expect([unnamed.manifest.package_id, unnamed.first_installed_at]).toEqual([
    expect.stringMatching(/^local\/tools-d/),
    null,
  ]);
});

test("reports what is invalid in package.json", async () => {
  await expect(fromFolder({ "tools/a.ts": TOOL, "package.json": "{" })).rejects.toMatchObject({
    code: "package.invalid",
    message: expect.stringContaining("package.json: it is not valid JSON"),
  });
  const requesting = { backplane: { permissions: { network: "all" } } };
  await expect(fromFolder({ "package.json": JSON.stringify(requesting) })).rejects.toMatchObject({
    message: expect.stringContaining("backplane.permissions.network"),
  });
  await expect(fromFolder({ "package.json": '{"version": "one"}' })).rejects.toMatchObject({
    message: expect.stringContaining("semantic version"),
  });
});

test("reports the file that a value comes from", async () => {
  const invalid = {
    version: "one",
    name: "n".repeat(300),
    backplane: { permissions: { network: "all" } },
  };
  const valid = { version: "1.0.0", name: "valid" };
  for (const [key, value] of Object.entries(invalid))
    for (const file of ["package.json", "install-meta.json"]) {
      const texts = { "package.json": "{}", "install-meta.json": "{}" };
      // A value of install-meta.json replaces that of package.json.
      if (file === "install-meta.json") texts["package.json"] = JSON.stringify(valid);
      await expect(
        fromFolder({ "tools/a.ts": TOOL, ...texts, [file]: JSON.stringify({ [key]: value }) }),
        `${key} of ${file}`,
      ).rejects.toMatchObject({ code: "package.invalid", details: { file } });
    }
});

test("refuses a folder `tools` without tool files", async () => {
  await expect(fromFolder({ "tools/run.sh": "", "tools/types.d.ts": "" })).rejects.toMatchObject({
    code: "package.source_invalid",
  });
});

test("refuses tools that are only in folders below `tools`, and ignores them next to a tool", async () => {
  const nested = { "tools/sub/a.ts": TOOL, "tools/node_modules/x/index.js": "" };
  await expect(fromFolder(nested)).rejects.toMatchObject({
    code: "package.source_invalid",
    message:
      "The source contains tools/sub/a.ts, but only files directly in tools/ are tools; move the tools there.",
  });
  const { manifest } = await fromFolder({ "tools/b.ts": TOOL });
  expect(manifest.runtime.protocol).toBe("module.tools");
});

test("derives package ids from names", () => {
  expect(
    ["notes", "@acme/notes", "My Tools!", "@Acme/x/y", "..."].map((name) => packageIdFromName(name)),
  ).toEqual(["local/notes", "acme/notes", "local/my-tools", "acme/x/y", "local/tools"]);
});

test("imports the tools folder of a workspace and keeps the chosen files of an earlier version", async () => {
  write({ "tools/a.ts": TOOL, "tools/b.ts": TOOL, "secrets.txt": "mine" });
  const { createFolderAccess } = await import("../../../src/index.ts");
  const folders = createFolderAccess(join(base, "list.json"));
  const importWorkspace = async (more: object = {}) => {
    const { digest } = await folders.survey(folder, "workspace");
    const source = {
      kind: "workspace" as const,
      path: folder,
      digest,
      whole: false,
      package_id: "workspace/w",
      keep: null,
    };
    return await importSource({ ...source, ...more });
  };
  const first = await importWorkspace();
  expect([first.origin, first.manifest.package_id]).toEqual(["workspace", "workspace/w"]);
  expect((await store.listFiles(first.digest)).map(({ path }) => path)).toEqual(["tools/a.ts", "tools/b.ts"]);

  write({ "tools/a.ts": "broken {", "tools/b.ts": "export default { description: 'new' };" });
  const next = await importWorkspace({ keep: { digest: first.digest, files: ["tools/a.ts"] } });
  const tree = await store.verifyTree(next.digest);
  expect(readFileSync(join(tree, "tools/a.ts"), "utf8")).toBe(TOOL);
  expect(readFileSync(join(tree, "tools/b.ts"), "utf8")).toContain("new");
  expect(next.manifest.version).not.toBe(first.manifest.version);

  await expect(importWorkspace({ digest: first.digest })).rejects.toMatchObject({
    code: "workspace.changed",
  });
});
