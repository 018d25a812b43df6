/** Manifests, schema files and ignore files that are designed to cost time or memory must be refused. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, expect, test } from "vitest";
import { createPackageImporter, openContentStore, packFolder, readManifest } from "../src/index.ts";
import { MANIFEST } from "./support/plugin-folder.ts";
import { inChunks, tar } from "./support/tar-bytes.ts";

const BYTES = 64 * 1024;
const base = mkdtempSync(join(tmpdir(), "backplane-hostile-"));
const schemas = shareSchemas();
afterAll(async () => {
  await schemas.close();
  rmSync(base, { recursive: true, force: true });
});
const importer = createPackageImporter({
  store: openContentStore(join(base, "blobs")),
  schemas,
  host: { os: "linux", arch: "amd64" },
});

test.each([
  ["a key of more than 30,000 parts", `a${".a".repeat(BYTES / 2 - 8)} = 1`],
  ["a table name of more than 30,000 parts", `[a${".a".repeat(BYTES / 2 - 8)}]\nb = 1`],
  ["lists in lists", `a = ${"[".repeat(BYTES / 2 - 8)}${"]".repeat(BYTES / 2 - 8)}`],
  ["tables in tables", `a = ${"{a=".repeat(BYTES / 8)}1${"}".repeat(BYTES / 8)}`],
  ["thousands of unknown fields", Array.from({ length: 6_000 }, (_, i) => `k${i} = 1`).join("\n")],
  ["a field with a name of 64 KiB", `${"k".repeat(BYTES - 8)} = 1`],
  ["thousands of exports", "[[exports]]\n".repeat(5_000)],
])("refuses %s quickly", (_, toml) => {
  const started = process.threadCpuUsage();
  const error = refusalOf(() => readManifest(toml));
  expect(error.code).toBe("package.invalid");
  expect(JSON.stringify([error.message, error.details]).length).toBeLessThan(50_000);
  // A refusal usually takes 1 to 70 ms of CPU time of this thread; quadratic work would take minutes or exhaust the
  // memory. On a busy machine, threads that share a core take several times as long.
  expect(process.threadCpuUsage(started).user).toBeLessThan(15_000_000);
});

test("refuses an oversized manifest or schema file", async () => {
  const install = (manifest: string, schema: Buffer | string) =>
    importer.import({
      kind: "archive",
      bytes: inChunks(
        tar(
          { name: "vai-plugin.toml", body: manifest },
          { name: "bin/plugin", mode: 0o755, body: "x" },
          { name: "schemas/greet.json", body: schema },
        ),
      ),
    });
  await expect(install(`${MANIFEST}\n#${"x".repeat(BYTES)}`, "{}")).rejects.toMatchObject({
    code: "package.source_invalid",
  });
  await expect(install(MANIFEST, Buffer.alloc(2 * 1024 * 1024, " "))).rejects.toMatchObject({
    code: "package.schema",
    message: expect.stringContaining("larger than 1024 KiB") as string,
  });
});

test("refuses a .vaiignore that is a pipe or a link without reading it", async () => {
  const createFolder = (name: string) => {
    const dir = join(base, name);
    mkdirSync(dir);
    writeFileSync(join(dir, "vai-plugin.toml"), MANIFEST);
    return dir;
  };
  const pipe = createFolder("pipe");
  execFileSync("mkfifo", [join(pipe, ".vaiignore")]);
  await expect(packFolder(pipe)).rejects.toMatchObject({ code: "package.unsafe" });
  const link = createFolder("link");
  symlinkSync("/dev/zero", join(link, ".vaiignore"));
  await expect(packFolder(link)).rejects.toMatchObject({ code: "package.unsafe" });
});

function refusalOf(work: () => unknown): { code: string; message: string; details: object } {
  try {
    work();
  } catch (error) {
    return error as { code: string; message: string; details: object };
  }
  throw new Error("the manifest was accepted");
}
