import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { gunzipSync, gzipSync } from "node:zlib";
import { pack } from "tar-stream";
import { afterEach, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createArchive, readBackupArchive } from "../../src/backup/archive.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "bp-archive-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const MANIFEST = {
  format: 1 as const,
  created_at: "2026-01-01T00:00:00.000Z",
  version: "0.1.0",
  owner: process.getuid?.() ?? 0,
  store: { kind: "sqlite" as const, schema_version: 1, tables: [] },
  keys: [],
  credentials: false,
};
const acceptAny = () => true;
const unpack = (file: string, isExpected: (path: string) => boolean = acceptAny) =>
  readBackupArchive(file, { to: join(folder, "to"), isExpected, progress() {} });

async function createTestArchive(names: readonly string[]): Promise<string> {
  const file = join(folder, "archive");
  const archive = createArchive(file);
  for (const name of names) await archive.add(name, join(folder, "from", name));
  await archive.finish(MANIFEST);
  return file;
}

async function createRawArchive(
  entries: readonly { name: string; type?: "link" | "symlink"; linkname?: string }[],
  ...manifests: string[]
) {
  const archive = pack();
  for (const entry of entries) archive.entry(entry, entry.type === undefined ? "x" : "");
  for (const manifest of manifests) archive.entry({ name: "manifest.json" }, manifest);
  archive.finalize();
  const file = join(folder, "raw");
  writeFileSync(file, gzipSync(await buffer(archive)));
  return file;
}

verifies("run.backup", "unpacks files, folders and links, and restores a file's mode and time", async () => {
  mkdirSync(join(folder, "from/blobs/empty"), { recursive: true });
  writeFileSync(join(folder, "from/blobs/tool"), "#!/bin/sh\n", { mode: 0o755 });
  writeFileSync(join(folder, "from/blobs/nothing"), "");
  symlinkSync("tool", join(folder, "from/blobs/link"));
  const file = await createTestArchive(["blobs", "blobs/empty", "blobs/link", "blobs/nothing", "blobs/tool"]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const to = join(folder, "to");
  const manifest = await unpack(file);
  expect(manifest).toMatchObject({
    ...MANIFEST,
    entries: [{ path: "blobs", type: "folder" }, {}, {}, {}, {}],
  });
  expect(readFileSync(join(to, "blobs/tool"), "utf8")).toBe("#!/bin/sh\n");
  expect(statSync(join(to, "blobs/tool")).mode & 0o777).toBe(0o755);
  expect(readlinkSync(join(to, "blobs/link"))).toBe("tool");
  expect(statSync(join(to, "blobs/empty")).isDirectory()).toBe(true);
  expect(statSync(join(to, "blobs/tool")).mtime.getTime()).toBe(
    Math.floor(statSync(join(folder, "from/blobs/tool")).mtimeMs / 1000) * 1000,
  );
});

test.each([
  ["a path outside the folder", entriesNamed("blobs/../../x"), "is not part of a backup"],
  ["an absolute path", entriesNamed("/x"), "is not part of a backup"],
  ["a name that no backup contains", entriesNamed("gateway.json"), "is not part of a backup"],
  ["two entries with the same name", entriesNamed("blobs", "blobs"), "is not part of a backup"],
  ["an entry that is missing from its manifest", entriesNamed("blobs"), "is not in its manifest"],
])("refuses an archive with %s", async (_, entries, reason) => {
  const file = await createRawArchive(entries, JSON.stringify({ ...MANIFEST, entries: [] }));
  const isExpected = (path: string) => path.startsWith("blobs");
  await expect(unpack(file, isExpected)).rejects.toMatchObject({
    code: "backup.invalid",
    message: expect.stringContaining(reason),
  });
});

function entriesNamed(...names: string[]) {
  return names.map((name) => ({ name }));
}

test("refuses an archive without a manifest or with a later format", async () => {
  await expect(unpack(await createRawArchive([]))).rejects.toThrow("is truncated");
  const newer_archive = await createRawArchive([], JSON.stringify({ format: 2, entries: [] }));
  await expect(unpack(newer_archive)).rejects.toThrow("a later version of Backplane");
});

verifies("run.backup", "refuses an archive whose bytes do not match their checksums", async () => {
  mkdirSync(join(folder, "from"));
  writeFileSync(join(folder, "from/blobs"), "the original bytes");
  const bytes = gunzipSync(readFileSync(await createTestArchive(["blobs"])));
  bytes.write("the falsified byte", bytes.indexOf("the original bytes"));
  writeFileSync(join(folder, "changed"), gzipSync(bytes));
  await expect(unpack(join(folder, "changed"))).rejects.toMatchObject({
    code: "backup.invalid",
    message: expect.stringContaining("the checksum of blobs does not match"),
  });
});
