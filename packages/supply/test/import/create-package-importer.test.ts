import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { PackageImporter } from "@backplane/ports";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type ContentStore, createPackageImporter, openContentStore } from "../../src/index.ts";
import { HELLO, MANIFEST, writeFolder } from "../support/plugin-folder.ts";
import { inChunks, type TarEntry, tar } from "../support/tar-bytes.ts";

const base = createMemoryFolder("backplane-import-");
const schemas = shareSchemas();
let count = 0;
let folder = "";
let dir = "";
let store: ContentStore;
let importer: PackageImporter;

beforeEach(() => {
  folder = join(base, `${count}-plugin`);
  dir = join(base, `${count++}-blobs`);
  mkdirSync(folder);
  store = openContentStore(dir);
  importer = createPackageImporter({ store, schemas, host: { os: "linux", arch: "amd64" } });
});
afterAll(async () => {
  await schemas.close();
  rmSync(base, { recursive: true, force: true });
});

const fromFolder = (files: Record<string, string>) => {
  writeFolder(folder, files);
  return importer.import({ kind: "folder", path: folder });
};
const fromArchive = (...entries: TarEntry[]) =>
  importer.import({ kind: "archive", bytes: inChunks(gzipSync(tar(...entries))) });
const entriesOf = (files: Record<string, string>): TarEntry[] =>
  Object.entries(files).map(([name, body]) => ({
    name,
    body,
    mode: name.startsWith("bin/") ? 0o755 : 0o644,
  }));

async function catchRefusal(
  importing: Promise<unknown>,
): Promise<{ code?: string; message?: string; details?: Record<string, unknown> }> {
  const error: object = await importing.then(
    () => ({}),
    (reason: object) => reason,
  );
  expect([readdirSync(join(dir, "sha256")), readdirSync(join(dir, "tmp"))], "no files are left").toEqual([
    [],
    [],
  ]);
  return error;
}

test("imports a folder and its archive as the same package", async () => {
  const imported = await fromFolder(HELLO);
  expect(imported).toMatchObject({
    origin: "folder",
    manifest: { package_id: "acme/hello" },
    schemas: { "schemas/greet.json": { type: "object", required: ["name"] } },
  });
  expect(imported.size_bytes).toBe(Object.values(HELLO).join("").length);
  const again = await fromArchive(...entriesOf(HELLO));
  const { first_installed_at } = imported;
  expect({ ...again, origin: "folder", first_installed_at }).toEqual(imported);
  expect([again.first_installed_at, Date.parse(first_installed_at!) > 0]).toEqual([null, true]);
  expect(again.origin).toBe("upload");
  expect(await store.verifyTree(imported.digest)).toContain(imported.digest.slice(7));
  // Released once for each import.
  importer.release(imported.digest);
  importer.release(imported.digest);
  await importer.discard(imported.digest, async () => false);
  expect(await store.has(imported.digest)).toBe(false);
});

describe("refuses", () => {
  test("an archive of the folder instead of its content", async () => {
    const error = await catchRefusal(fromArchive({ name: "hello/vai-plugin.toml", body: MANIFEST }));
    expect(error.code).toBe("package.source_invalid");
    expect(error.message).toContain(
      "hello/vai-plugin.toml instead of vai-plugin.toml; pack the content of the folder",
    );
  });

  test("an empty archive", async () => {
    expect((await catchRefusal(fromArchive())).message).toBe(
      "The source contains no vai-plugin.toml; it is empty.",
    );
  });

  test.each([["relative/path"], ["/does/not/exist"]])("the folder %s", async (path) => {
    expect((await catchRefusal(importer.import({ kind: "folder", path }))).code).toBe(
      "package.source_invalid",
    );
  });

  test("a file in place of a folder", async () => {
    writeFileSync(join(folder, "f"), "");
    expect((await catchRefusal(importer.import({ kind: "folder", path: join(folder, "f") }))).code).toBe(
      "package.source_invalid",
    );
  });

  test("a manifest with an error", async () => {
    const error = await catchRefusal(
      fromArchive(...entriesOf({ ...HELLO, "vai-plugin.toml": MANIFEST.replace('"tool"', '"tol"') })),
    );
    expect(error).toMatchObject({
      code: "package.invalid",
      message: expect.stringMatching(/^vai-plugin\.toml:12: /),
    });
  });

  test("an unsafe archive", async () => {
    const error = await catchRefusal(fromArchive(...entriesOf(HELLO), { name: "../x", body: "y" }));
    expect(error.code).toBe("package.unsafe");
  });

  test("a folder with a credential", async () => {
    expect((await catchRefusal(fromFolder({ ...HELLO, ".env": "A=1" }))).code).toBe(
      "package.credential_file",
    );
  });
});

test("refuses a folder without a manifest, and lists what was found instead", async () => {
  const error = await catchRefusal(fromFolder({ "package.json": "{}", "src/a.ts": "" }));
  expect(error.code).toBe("package.source_invalid");
  expect(error.message).toBe(`${folder} contains no vai-plugin.toml; found instead: package.json, src.`);
});

describe("the platform of a package", () => {
  const withPlatform = (lines: string) => ({
    ...HELLO,
    "vai-plugin.toml": MANIFEST.replace("[runtime]", `[runtime]\n${lines}`),
  });

  verifies(
    "pkg.platform",
    "refuses another operating system or architecture and lists the supported ones",
    async () => {
      const cases: [lines: string, supported: string[]][] = [
        ['os = ["darwin", "windows"]', ["darwin/any", "windows/any"]],
        ['arch = ["arm64"]', ["any/arm64"]],
        ['os = ["linux", "darwin"]\narch = ["arm64"]', ["linux/arm64", "darwin/arm64"]],
      ];
      for (const [lines, supported] of cases) {
        const error = await catchRefusal(fromFolder(withPlatform(lines)));
        expect(error.code).toBe("package.platform");
        expect(error.details).toEqual({ host: "linux/amd64", supported });
        expect(error.message).toBe(
          `The package does not run on linux/amd64; it supports ${supported.join(", ")}.`,
        );
      }
    },
  );

  test("accepts this platform, and a package without platforms", async () => {
    await fromFolder(HELLO);
    expect(
      (await fromFolder(withPlatform('os = ["linux"]\narch = ["amd64", "arm64"]'))).manifest.runtime.os,
    ).toEqual(["linux"]);
  });
});

describe("schema files of a package", () => {
  const CASES: [name: string, schema: string | null, message: RegExp][] = [
    ["that are missing", null, /the package does not contain this file/],
    ["that are not JSON", "{nope", /it is not valid JSON/],
    ["that are not a schema", "[1]", /a schema must be an object, true or false/],
    ["with a type that does not exist", '{"type":"strin"}', /schema is invalid/],
    [
      "with a remote reference",
      '{"$ref":"https://example.com/s.json"}',
      /\$ref "https:\/\/example\.com\/s\.json" points outside the schema/,
    ],
    [
      "with a remote reference in an unused part",
      '{"$defs":{"a":{"$ref":"other.json#/x"}}}',
      /\$ref "other\.json#\/x" points outside/,
    ],
    ["with a reference to nothing", '{"$ref":"#/$defs/none"}', /can't resolve reference #\/\$defs\/none/],
    [
      "of another draft",
      '{"$schema":"http://json-schema.org/draft-04/schema#"}',
      /\$schema is "http:\/\/json-schema\.org\/draft-04\/schema#"; write/,
    ],
    ["with a back-reference in a pattern", '{"pattern":"(a)\\\\1"}', /pattern "\(a\)\\\\1" cannot be used/],
  ];
  for (const [name, schema, message] of CASES) {
    verifies(
      "pkg.schema-files",
      `refuses schema files ${name} and reports the file and the field`,
      async () => {
        const { "schemas/greet.json": _, ...rest } = HELLO;
        const error = await catchRefusal(
          fromFolder(schema === null ? rest : { ...rest, "schemas/greet.json": schema }),
        );
        expect(error.code).toBe("package.schema");
        expect(error.message).toMatch(/^schemas\/greet\.json \(exports\[0\]\.tool\.input_schema\): /);
        expect(error.message).toMatch(message);
        expect(error.details).toMatchObject({
          file: "schemas/greet.json",
          field: "exports[0].tool.input_schema",
        });
      },
    );
  }
});

describe("an entrypoint", () => {
  const withEntrypoint = (program: string) => MANIFEST.replace("./bin/plugin", program);

  test("must be in the package", async () => {
    const error = await catchRefusal(
      fromFolder({ ...HELLO, "vai-plugin.toml": withEntrypoint("./bin/other") }),
    );
    expect(error).toMatchObject({
      code: "package.invalid",
      message:
        'vai-plugin.toml:8: runtime.entrypoint[0] "./bin/other" is not in the package; add the file or correct the path',
    });
  });

  test("must be executable; otherwise the error explains the fix", async () => {
    writeFolder(folder, HELLO);
    chmodSync(join(folder, "bin/plugin"), 0o644);
    const error = await catchRefusal(importer.import({ kind: "folder", path: folder }));
    expect(error.message).toBe(
      'vai-plugin.toml:8: runtime.entrypoint[0] "./bin/plugin" is not executable; run `chmod +x ./bin/plugin` and pack again',
    );
  });

  test("must not refer to a file of the package by a bare name", async () => {
    const error = await catchRefusal(
      fromFolder({ ...HELLO, "run.sh": "x", "vai-plugin.toml": withEntrypoint("run.sh") }),
    );
    expect(error.message).toContain('is a file of the package; write "./run.sh"');
  });

  test("may be an interpreter on the PATH", async () => {
    expect(
      (await fromFolder({ ...HELLO, "vai-plugin.toml": withEntrypoint("python3") })).manifest.runtime
        .entrypoint,
    ).toEqual(["python3"]);
  });
});
