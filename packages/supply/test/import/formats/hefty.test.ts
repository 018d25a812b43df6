import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { createPackageImporter, openContentStore } from "../../../src/index.ts";
import { writeFolder } from "../../support/plugin-folder.ts";
import { inChunks, tar } from "../../support/tar-bytes.ts";
import { zip } from "../../support/zip-bytes.ts";
import { classFile, MAIN_CLASS } from "./class-file.ts";

const base = mkdtempSync(join(tmpdir(), "backplane-hefty-"));
const schemas = shareSchemas();
let count = 0;
let folder = "";
let blobs = "";

beforeEach(() => {
  folder = join(base, `${count}-plugin`);
  blobs = join(base, `${count++}-blobs`);
  mkdirSync(folder);
});
afterAll(async () => {
  await schemas.close();
  rmSync(base, { recursive: true, force: true });
});

const FILE = "META-INF/hefty-plugin.json";
const HELLO = {
  id: "hello-world",
  name: "Hello World Plugin",
  version: "1.0.0",
  author: "Your Name",
  description: "A minimal example plugin",
  providerClass: "./provider.js#HelloWorldProvider",
  isolationMode: "InProcess",
  dependencies: ["base-plugin"],
  platforms: [],
  minHeftyVersion: "0.22.0",
};
const MODULE = { "provider.js": "export class HelloWorldProvider {}" };

const importer = () =>
  createPackageImporter({ store: openContentStore(blobs), schemas, host: { os: "linux", arch: "amd64" } });
const makeFiles = (manifest: unknown, others: Record<string, string | Buffer> = MODULE) => ({
  [FILE]: typeof manifest === "string" ? manifest : JSON.stringify(manifest),
  ...others,
});
const fromFolder = (files: Record<string, string | Buffer>) =>
  importer().import({ kind: "folder", path: writeFolder(folder, files) });
const zipOf = (files: Record<string, string>) =>
  zip(
    Object.entries(files).map(([name, body]) => ({
      name,
      body,
      mode: name.startsWith("bin/") ? 0o100755 : 0o100644,
    })),
  );
const importRuntime = async (changes: object, others?: Record<string, string | Buffer>) =>
  (await fromFolder(makeFiles({ ...HELLO, ...changes }, others))).manifest.runtime;

async function catchRefusal(manifest: unknown, others?: Record<string, string | Buffer>) {
  const error = await fromFolder(makeFiles(manifest, others)).then(
    () => null,
    (reason: { code: string; message: string; details: { issues?: { path: string }[] } }) => reason,
  );
  expect(readdirSync(join(blobs, "sha256")), "no files are left").toEqual([]);
  return error!;
}

verifies(
  "instr.manifest",
  "imports a folder, a zip, a jar and a tar with the manifest as the same package",
  async () => {
    const files = makeFiles(HELLO);
    const imported = await fromFolder(files);
    expect(imported.manifest).toMatchObject({
      package_id: "hefty/hello-world",
      version: "1.0.0",
      name: "Hello World Plugin",
      description: "A minimal example plugin",
      runtime: {
        protocol: "module.instrument",
        entrypoint: ["node", "./provider.js#HelloWorldProvider"],
        instrument: {
          plugin_id: "hello-world",
          author: "Your Name",
          isolation: "InProcess",
          dependencies: ["base-plugin"],
          min_hefty_version: "0.22.0",
        },
      },
      exports: [],
    });
    const archives = [
      zipOf(files),
      // The JDK's jar tool writes its archives like this.
      zip([
        { name: "META-INF/", method: 0 },
        ...Object.entries(files).map(([name, body]) => ({ name, body, descriptor: true })),
      ]),
      gzipSync(tar(...Object.entries(files).map(([name, body]) => ({ name, body })))),
    ];
    for (const bytes of archives) {
      const again = await importer().import({ kind: "archive", bytes: inChunks(bytes) });
      expect([again.digest, again.manifest]).toEqual([imported.digest, imported.manifest]);
    }
    const jar = join(base, "hello.jar");
    writeFileSync(jar, archives[1]!);
    expect((await importer().import({ kind: "folder", path: jar })).digest).toBe(imported.digest);
  },
);

/** The manifest of the format's own guide, byte for byte: a JVM class that runs inside Hefty. */
const PUBLISHED = readFileSync(
  new URL("../../../../../test/fixtures/published/hefty-plugin.json", import.meta.url),
  "utf8",
);

verifies(
  "instr.manifest",
  "installs the published manifest, whose JVM class runs in its own process",
  async () => {
    const classes = {
      "com/example/HelloWorldProvider.class": classFile("instruments", "()Lscala/collection/immutable/List;"),
    };
    const { manifest } = await fromFolder(makeFiles(PUBLISHED, classes));
    expect(manifest).toMatchObject({
      package_id: "hefty/hello-world",
      runtime: {
        protocol: "hefty.jsonrpc",
        entrypoint: ["backplane-java-host", "com.example.HelloWorldProvider"],
        instrument: { plugin_id: "hello-world", isolation: "InProcess", min_hefty_version: "0.22.0" },
      },
    });
  },
);

verifies(
  "instr.manifest",
  "starts a Java class as a process regardless of the declared isolationMode",
  async () => {
    const plugin = { ...(JSON.parse(PUBLISHED) as object), isolationMode: "ClassLoaderIsolated" };
    const classes = { "com/example/HelloWorldProvider.class": MAIN_CLASS };
    const { protocol, entrypoint, instrument } = await importRuntime(plugin, classes);
    expect([protocol, instrument?.isolation]).toEqual(["hefty.jsonrpc", "ClassLoaderIsolated"]);
    expect(entrypoint).toEqual(["java", "-cp", ".:lib/*", "com.example.HelloWorldProvider"]);
  },
);

describe("an instrument plugin (instr.manifest)", () => {
  test("runs the default export of a module InProcess by default", async () => {
    const runtime = await importRuntime({ isolationMode: undefined, providerClass: "provider.js" });
    expect(runtime).toMatchObject({
      protocol: "module.instrument",
      entrypoint: ["node", "./provider.js#default"],
      instrument: { isolation: "InProcess" },
    });
  });
  test("uses the ready-made host for an External module", async () => {
    expect(await importRuntime({ isolationMode: "External" })).toMatchObject({
      protocol: "hefty.jsonrpc",
      entrypoint: ["backplane-instrument-host", "./provider.js#HelloWorldProvider"],
    });
  });
  test("accepts a command with arguments for External", async () => {
    const command = { isolationMode: "External", providerClass: "./bin/plugin --stdio" };
    expect(await importRuntime(command, { "bin/plugin": "#!/bin/sh\n" })).toMatchObject({
      protocol: "hefty.jsonrpc",
      entrypoint: ["./bin/plugin", "--stdio"],
    });
  });
  test("looks up a bare name on the PATH for External", async () => {
    const command = { isolationMode: "External", providerClass: "python3 plugin.py" };
    expect((await importRuntime(command, { "plugin.py": "" })).entrypoint).toEqual(["python3", "plugin.py"]);
  });
  test("runs an External Java class by its main method or in the ready-made host", async () => {
    const command = { isolationMode: "External", providerClass: "com.example.Main" };
    const start = async (file: string | Buffer) =>
      (await importRuntime(command, { "com/example/Main.class": file })).entrypoint;
    expect(await start(MAIN_CLASS)).toEqual(["java", "-cp", ".:lib/*", "com.example.Main"]);
    expect(await start(classFile("instruments", "()Ljava/util/List;"))).toEqual([
      "backplane-java-host",
      "com.example.Main",
    ]);
    await expect(start("cafe")).rejects.toThrow("com/example/Main.class is not a Java class file");
  });
  test("is limited to the operating systems of its platforms, unless one is All", async () => {
    expect((await importRuntime({ platforms: ["Linux", "MacOS"] })).os).toEqual(["linux", "darwin"]);
    expect((await importRuntime({ platforms: ["Linux", "All"] })).os).toBeUndefined();
  });
  test("is refused on another operating system", async () => {
    expect(await catchRefusal({ ...HELLO, platforms: ["Windows"] })).toMatchObject({
      code: "package.platform",
    });
  });
  test("requests the permissions in x-backplane", async () => {
    const permissions = {
      network: "egress",
      allowed_domains: ["api.example.com"],
      secret_slots: ["api_token"],
    };
    expect((await importRuntime({ "x-backplane": { permissions } })).permissions).toMatchObject(permissions);
  });
});

describe("refuses a manifest and explains the problem:", () => {
  const WRONG: [what: string, manifest: unknown, expectedText: RegExp, others?: Record<string, string>][] = [
    ["invalid JSON", "{", /^META-INF\/hefty-plugin\.json: it is not valid JSON/],
    ["a list", [], /write one object/],
    ["no id", { ...HELLO, id: undefined }, /id is missing; write lower case with hyphens/],
    ["an id in capitals", { ...HELLO, id: "Hello" }, /id is "Hello"; write lower case/],
    ["an empty name", { ...HELLO, name: "" }, /name is ""; write the display name/],
    [
      "a version that is not semantic",
      { ...HELLO, version: "1.0" },
      /version is "1.0"; write a semantic version/,
    ],
    ["no author", { ...HELLO, author: undefined }, /author is missing/],
    ["a description that is not text", { ...HELLO, description: 5 }, /description is 5/],
    [
      "a blank providerClass",
      { ...HELLO, providerClass: " " },
      /providerClass is " "; write a module's export/,
    ],
    [
      "an unknown mode",
      { ...HELLO, isolationMode: "Inline" },
      /write one of InProcess, ClassLoaderIsolated, External/,
    ],
    [
      "a dependency that is not an id",
      { ...HELLO, dependencies: ["A B"] },
      /dependencies is .* write a list of plugin ids/,
    ],
    ["a dependency twice", { ...HELLO, dependencies: ["a", "a"] }, /each once/],
    ["itself as a dependency", { ...HELLO, dependencies: ["hello-world"] }, /names hello-world itself/],
    ["an unknown platform", { ...HELLO, platforms: ["Amiga"] }, /write a list of Linux, MacOS, Windows, All/],
    ["an invalid version of Hefty", { ...HELLO, minHeftyVersion: "new" }, /minHeftyVersion is "new"/],
    [
      "a newer version of Hefty",
      { ...HELLO, minHeftyVersion: "0.23.0" },
      /needs Hefty 0.23.0, and this host is compatible with 0.22.0/,
    ],
    ["an unknown field", { ...HELLO, provider: "x" }, /provider is not a field of this file/],
    ["a misspelled field", { ...HELLO, isolationmode: "External" }, /did you mean isolationMode\?/],
    [
      "unknown fields in x-backplane",
      { ...HELLO, "x-backplane": { class: "inline" } },
      /permissions and nothing else/,
    ],
    [
      "invalid permissions",
      { ...HELLO, "x-backplane": { permissions: { network: "all" } } },
      /permissions\.network/,
    ],
    ["a missing module", HELLO, /names the module provider.js, which is not in the package/, {}],
    [
      "a module outside the package",
      { ...HELLO, providerClass: "../provider.js#X" },
      /which is not in the package/,
    ],
    [
      "a missing class with isolationMode InProcess",
      { ...HELLO, providerClass: "com.example.Hello" },
      /the archive does not contain com\/example\//,
    ],
    [
      "a command with isolationMode InProcess",
      { ...HELLO, providerClass: "./bin/plugin" },
      /it names neither a module nor a Java class/,
    ],
    [
      "a missing class",
      { ...HELLO, isolationMode: "External", providerClass: "com.example.Hello" },
      /does not contain com\/example\/Hello.class/,
    ],
    [
      "a shell line",
      { ...HELLO, isolationMode: "External", providerClass: "sh -c 'echo $HOME'" },
      /there is no shell/,
    ],
    [
      "a missing program",
      { ...HELLO, isolationMode: "External", providerClass: "./bin/other" },
      /not in the package/,
    ],
    [
      "a program that is not executable",
      { ...HELLO, isolationMode: "External", providerClass: "./run" },
      /not executable/,
      { run: "" },
    ],
    [
      "a file of the package by its bare name",
      { ...HELLO, isolationMode: "External", providerClass: "run" },
      /write ".\/run"/,
      { run: "" },
    ],
  ];
  for (const [label, manifest, expectedText, others] of WRONG) {
    test(label, async () => {
      const error = await catchRefusal(manifest, others);
      expect(error.code).toBe("package.invalid");
      expect(error.message).toMatch(expectedText);
      expect(error.message).toContain(FILE);
    });
  }
});

test("lists several problems of a manifest in one error", async () => {
  const error = await catchRefusal({ id: "x", colour: "red" });
  expect(error.details.issues?.map(({ path }) => path)).toEqual([
    "colour",
    "name",
    "version",
    "author",
    "description",
    "providerClass",
  ]);
});

test("accepts a pre-release of the compatible version as the minimum version of Hefty", async () => {
  expect((await importRuntime({ minHeftyVersion: "0.22.0-rc.1" })).instrument?.min_hefty_version).toBe(
    "0.22.0-rc.1",
  );
});
