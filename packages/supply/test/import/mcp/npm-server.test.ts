/** MCP servers from npm as packages, with the real npm and a local registry. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@backplane/contract";
import type { InstallationSource, InstallScripts } from "@backplane/ports";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { createPackageImporter, openContentStore } from "../../../src/index.ts";
import { createNpm, type Npm } from "../../../src/npm/npm-command.ts";
import { type CheckProvenance, createProvenanceCheck } from "../../../src/provenance/check-provenance.ts";
import { createTrustRoot } from "../../../src/provenance/trust-root.ts";
import { packPackage, type Registry, startRegistry } from "../../support/npm-registry.ts";
import { reuseTree } from "../../support/reuse-tree.ts";
import { ACME_BUILD, provenanceStatement, SigstoreInstance } from "../../support/sigstore-instance.ts";

let registry: Registry;
let root: string;
/** Shared, because each npm starts one more process to read the settings. */
let npm: Npm;

beforeAll(async () => {
  registry = await startRegistry();
  root = mkdtempSync(join(tmpdir(), "backplane-npm-server-"));
  npm = createNpm({
    env: {
      ...process.env,
      NPM_CONFIG_REGISTRY: registry.url,
      NPM_CONFIG_CACHE: join(root, "cache"),
      // Settings that a user may have; they must not allow scripts to run.
      NPM_CONFIG_IGNORE_SCRIPTS: "false",
    },
  });
});
afterAll(async () => {
  await registry.close();
  rmSync(root, { recursive: true, force: true });
});

function publish(name: string, fields: object, files: Record<string, string> = {}): Buffer {
  const manifest = { name, version: "1.0.0", ...fields };
  const archive = packPackage({ "package.json": JSON.stringify(manifest), ...files });
  registry.publish(name, manifest.version, archive, manifest);
  return archive;
}

interface ImporterOptions {
  with_npm?: Npm;
  scripts?: InstallScripts;
  provenance?: CheckProvenance;
}

async function createImporter({ with_npm = npm, scripts, provenance }: ImporterOptions = {}) {
  const store = openContentStore(join(root, "blobs"));
  const schemas = shareSchemas();
  const importer = createPackageImporter({
    store,
    schemas,
    host: { os: "linux", arch: "amd64" },
    npm: with_npm,
    scripts: scripts ?? null,
    ...(provenance === undefined ? {} : { provenance }),
  });
  return { store, importer, close: () => schemas.close() };
}

test("packs the whole locked dependency tree without running its code, with a reproducible digest", async () => {
  const ran = join(root, "script-ran");
  const scripts = { preinstall: `touch ${ran}`, postinstall: `touch ${ran}` };
  publish("acme-left", { main: "index.js", scripts }, { "index.js": "" });
  publish(
    "@acme/mcp-demo",
    { bin: { "mcp-demo": "bin.mjs", other: "other.mjs" }, dependencies: { "acme-left": "^1.0.0" }, scripts },
    { "bin.mjs": "#!/usr/bin/env node\n" },
  );
  const { store, importer, close } = await createImporter();
  const source = { kind: "npm" as const, spec: "@acme/mcp-demo", secret_slots: ["api_key"] };
  const first = await importer.import(source);
  expect(first).toMatchObject({
    origin: "npm",
    manifest: {
      package_id: "acme/mcp-demo",
      version: "1.0.0",
      source: "npm:@acme/mcp-demo@1.0.0",
      exports: [],
      runtime: {
        protocol: "mcp.stdio",
        entrypoint: ["node", "./node_modules/@acme/mcp-demo/bin.mjs"],
        permissions: { network: "egress", filesystem: "scratch", secret_slots: ["api_key"] },
      },
    },
  });
  const tree = await store.verifyTree(first.digest);
  expect(existsSync(join(tree, "node_modules/acme-left/index.js"))).toBe(true);
  const lock = readFileSync(join(tree, "package-lock.json"), "utf8");
  expect(lock).toContain('"node_modules/acme-left"');
  expect(lock).toContain("sha512-");
  expect(existsSync(ran)).toBe(false);
  expect((await importer.import(source)).digest).toBe(first.digest);
  await close();
}, 60_000);

verifies(
  "pkg.sign",
  "checks the provenance of an npm package before its archive is fetched",
  async () => {
    const archive = publish("acme-proven", { bin: "x.js" }, { "x.js": "" });
    const sigstore = new SigstoreInstance();
    const file = join(root, "trusted_root.json");
    writeFileSync(file, JSON.stringify(sigstore.trustedRoot()));
    const trust_root = createTrustRoot({ file, folder: root, now: Date.now });
    const check = createProvenanceCheck({ npm, trust_root, required: [], now: Date.now });
    const { store, importer, close } = await createImporter({ provenance: check });
    const source = { kind: "npm" as const, spec: "acme-proven", secret_slots: [] };
    const attest = (bytes: Buffer) => {
      const statement = provenanceStatement({ name: "acme-proven", version: "1.0.0", archive: bytes });
      const predicateType = "https://slsa.dev/provenance/v1";
      const attestations = [{ predicateType, bundle: sigstore.sign(statement) }];
      registry.attestations.set("acme-proven@1.0.0", { attestations });
    };
    attest(Buffer.from("another archive"));
    registry.requests.length = 0;
    await expect(importer.import(source)).rejects.toMatchObject({ code: "provenance.mismatch" });
    expect(registry.requests.filter((path) => path.endsWith(".tgz"))).toEqual([]);
    const inspection = importer.inspect({ ...source, args: [] });
    await expect(inspection).rejects.toMatchObject({ code: "provenance.mismatch" });
    attest(archive);
    expect((await importer.inspect({ ...source, args: [] })).packages).toMatchObject([
      { package_id: "npm/acme-proven", provenance: { state: "verified" } },
    ]);
    const imported = await importer.import(source);
    expect(imported.provenance).toMatchObject({
      state: "verified",
      build: { repository: ACME_BUILD.repository },
      trust_root: { name: file },
    });
    expect(await store.verifyTree(imported.digest)).toBe(store.treeOf(imported.digest));
    await close();
  },
  60_000,
);

const NATIVE: Extract<InstallationSource, { kind: "npm" }> = {
  kind: "npm",
  spec: "acme-uses-native",
  args: [],
  secret_slots: [],
};

let native_npm: Npm | undefined;

/** An importer of `NATIVE`, which the real npm installs once. */
async function createNativeImporter(scripts?: InstallScripts) {
  native_npm ??= publishNative();
  return await createImporter({ with_npm: native_npm, ...(scripts === undefined ? {} : { scripts }) });
}

/** Installs `NATIVE` with one npm and every other package with the other one. */
function selectNpm(native: Npm, other: Npm): Npm {
  return {
    ...npm,
    install: (...args) => (args[0].at(-1) === `${NATIVE.spec}@latest` ? native : other).install(...args),
  };
}

function publishNative(): Npm {
  const scripts = { install: "node-gyp rebuild" };
  publish("acme-native", { main: "index.js", scripts }, { "index.js": "" });
  publish(
    "acme-uses-native",
    { bin: "bin.mjs", dependencies: { "acme-native": "1.0.0" } },
    { "bin.mjs": "#!/usr/bin/env node\n" },
  );
  return reuseTree(npm, `${NATIVE.spec}@latest`);
}

const KEY = `ghp_${"a1B2".repeat(9)}`;
let harmless:
  | Promise<{ tree: string; verified: string; origin: string; notes: readonly string[] }>
  | undefined;

/**
 * Imports a package with a credential in a dependency, which is allowed, and an optional dependency for another
 * platform.
 */
async function importHarmless() {
  const scripts = { install: "node-gyp rebuild" };
  publish("acme-fixture", { main: "index.js" }, { "index.js": "", "test-key.txt": KEY });
  publish("acme-foreign", { os: ["aix"], scripts, hasInstallScript: true }, {});
  publish(
    "acme-harmless",
    {
      bin: "bin.mjs",
      dependencies: { "acme-fixture": "1.0.0" },
      optionalDependencies: { "acme-foreign": "1.0.0" },
    },
    { "bin.mjs": "#!/usr/bin/env node\n" },
  );
  const { store, importer, close } = await createImporter();
  const opened = await importer.open({ ...NATIVE, spec: "acme-harmless" });
  const { digest, origin, notes } = await opened.import(opened.parts[0]!);
  // Fails if the tree has anything that its listing does not have.
  const verified = await store.verifyTree(digest);
  await close();
  return { tree: store.treeOf(digest), verified, origin, notes: notes ?? [] };
}

/** Packages that are refused after npm has installed them. The real npm installs all of them together. */
const UNUSABLE: Record<string, [fields: object, files?: Record<string, string>]> = {
  "acme-no-bin": [{}],
  "acme-two-bins": [{ bin: { a: "a.js", b: "b.js" } }],
  "acme-lost-bin": [{ bin: "gone.js" }],
  "acme-kernel": [{ bin: "x.js", "yaya.plugins.v1": { x: { category: "tool" } } }],
  "acme-leaky": [{ bin: "bin.mjs" }, { "bin.mjs": "", "notes.txt": `token ${KEY}` }],
  "acme-twins": [{ bin: "x.js" }, { "x.js": "", "README.md": "", "readme.md": "" }],
};
let unusable_npm: Npm | undefined;

async function importUnusable(name: keyof typeof UNUSABLE) {
  unusable_npm ??= publishUnusable();
  const { importer, close } = await createImporter({ with_npm: unusable_npm });
  try {
    return await importer.import({ kind: "npm", spec: name, secret_slots: [] });
  } finally {
    await close();
  }
}

function publishUnusable(): Npm {
  for (const [name, [fields, files]] of Object.entries(UNUSABLE)) publish(name, fields, files);
  const dependencies = Object.fromEntries(Object.keys(UNUSABLE).map((name) => [name, "1.0.0"]));
  publish("acme-unusable", { dependencies });
  return reuseTree(npm, "acme-unusable@latest");
}

verifies(
  "pkg.no-secrets",
  "refuses a credential in the requested npm package and reports the file",
  async () => {
    await expect(importUnusable("acme-leaky")).rejects.toMatchObject({
      code: "package.credential_file",
      details: { files: [{ file: "notes.txt", why: "it contains a GitHub token" }] },
    });
    harmless ??= importHarmless();
    expect((await harmless).origin).toBe("npm");
  },
  60_000,
);

verifies(
  "server.native",
  "reports the install scripts that were not run, and how to allow them",
  async () => {
    const { importer, close } = await createNativeImporter();
    const opened = await importer.open(NATIVE);
    const { notes, manifest } = await opened.import(opened.parts[0]!);
    expect(notes).toEqual([expect.stringContaining("acme-native@1.0.0")]);
    expect(notes![0]).toContain("--allow-scripts acme-native");
    expect(manifest.source).toBe("npm:acme-uses-native@1.0.0");
    await close();
  },
  60_000,
);

verifies(
  "server.native",
  "runs allowed scripts, records them, and includes their result in the digest",
  async () => {
    const requests: string[][] = [];
    const outside = join(root, "outside");
    writeFileSync(outside, "untouched");
    const scripts: InstallScripts = {
      async run({ folder, packages }) {
        requests.push([...packages]);
        writeFileSync(join(folder, "node_modules/acme-native/built.node"), "native code");
        mkdirSync(join(folder, "node_modules/.bin"), { recursive: true });
        symlinkSync("../acme-native/built.node", join(folder, "node_modules/.bin/native"));
        // Files that the gateway writes afterwards: the links must not be followed.
        rmSync(join(folder, "package-lock.json"));
        symlinkSync(outside, join(folder, "package-lock.json"));
        symlinkSync(outside, join(folder, "vai-plugin.toml"));
      },
    };
    const { store, importer, close } = await createNativeImporter(scripts);
    const plain = await importer.open(NATIVE);
    const opened = await importer.open(NATIVE, { allow_scripts: ["acme-native"] });
    const without_scripts = await plain.import(plain.parts[0]!);
    const { digest, manifest, notes } = await opened.import(opened.parts[0]!);
    expect(requests).toEqual([["acme-native"]]);
    expect(notes).toEqual([]);
    expect(digest).not.toBe(without_scripts.digest);
    expect(manifest).toMatchObject({
      version: "1.0.0+scripts.acme-native",
      source: "npm:acme-uses-native@1.0.0; install scripts: acme-native@1.0.0",
    });
    const tree = await store.verifyTree(digest);
    expect(readFileSync(join(tree, "node_modules/acme-native/built.node"), "utf8")).toBe("native code");
    expect(existsSync(join(tree, "node_modules/.bin"))).toBe(false);
    expect(readFileSync(join(tree, "package-lock.json"), "utf8")).toContain("acme-native");
    expect(readFileSync(outside, "utf8")).toBe("untouched");
    await close();
  },
  60_000,
);

test("refuses links that a script leaves behind", async () => {
  const scripts: InstallScripts = {
    run: async ({ folder }) => symlinkSync("/etc/passwd", join(folder, "node_modules/acme-native/secret")),
  };
  const { importer, close } = await createNativeImporter(scripts);
  const linked = await importer.open(NATIVE, { allow_scripts: ["acme-native"] });
  await expect(linked.import(linked.parts[0]!)).rejects.toMatchObject({
    code: "package.invalid",
    message: expect.stringContaining(
      "node_modules/acme-native/secret is neither a file nor a folder",
    ) as unknown,
  });
  await close();
}, 60_000);

verifies(
  "server.native",
  "runs allowed scripts of the servers of an mcp.json and of an Agent Plugin",
  async () => {
    native_npm ??= publishNative();
    publish("acme-plain", { bin: "bin.mjs" }, { "bin.mjs": "#!/usr/bin/env node\n" });
    const requests: string[][] = [];
    const scripts: InstallScripts = { run: async ({ packages }) => void requests.push([...packages]) };
    const { importer, close } = await createImporter({
      with_npm: selectNpm(native_npm, reuseTree(npm, "acme-plain@latest")),
      scripts,
    });
    const mcpServers = {
      plain: { command: "npx", args: ["-y", "acme-plain"] },
      native: { command: "npx", args: ["-y", "acme-uses-native"] },
    };
    const path = mkdtempSync(join(root, "agent-plugin-"));
    const $schema = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";
    writeFileSync(join(path, "plugin.json"), JSON.stringify({ $schema, name: "acme", version: "1.0.0" }));
    writeFileSync(join(path, "mcp.json"), JSON.stringify({ mcpServers }));
    const document = { mcpServers } as JsonObject;
    const sources: InstallationSource[] = [
      { kind: "mcp_json", document, file: "mcp.json", secret_slots: [] },
      { kind: "folder", path },
    ];
    for (const source of sources) {
      const opened = await importer.open(source, { allow_scripts: ["acme-native"] });
      const imported = [];
      for (const part of opened.parts) imported.push(await opened.import(part));
      expect(imported.map(({ manifest }) => manifest.source)).toEqual([
        "npm:acme-plain@1.0.0",
        "npm:acme-uses-native@1.0.0; install scripts: acme-native@1.0.0",
      ]);
      expect(() => opened.assertAllowedFound()).not.toThrow();
      await opened.end();
    }
    expect(requests).toEqual([["acme-native"], ["acme-native"]]);
    await close();
  },
  60_000,
);

test("refuses names of packages without install scripts, and lists the packages that have some", async () => {
  const { importer, close } = await createNativeImporter({ run: async () => {} });
  const opened = await importer.open(NATIVE, { allow_scripts: ["left-pad"] });
  const { notes } = await opened.import(opened.parts[0]!);
  expect(notes).toEqual([expect.stringContaining("acme-native@1.0.0")]);
  const refused = expect.objectContaining({
    code: "plugin.source_invalid",
    fix: "Dependencies with install scripts: acme-native.",
  }) as unknown;
  expect(() => opened.assertAllowedFound()).toThrow(refused as Error);
  await close();
}, 60_000);

test("does not report install scripts of packages for another platform", async () => {
  harmless ??= importHarmless();
  expect((await harmless).notes).toEqual([]);
}, 60_000);

test.each([
  ["acme-no-bin", "it has no program to start"],
  ["acme-two-bins", "it has several programs: a, b"],
  ["acme-lost-bin", "its program gone.js is not in the package"],
  ["acme-kernel", "it is a kernel plugin"],
])(
  "refuses %s as an MCP server",
  async (name, expectedText) => {
    await expect(importUnusable(name)).rejects.toMatchObject({
      code: "package.invalid",
      message: expect.stringContaining(expectedText),
    });
  },
  60_000,
);

test.each(["--global", "git+https://example.com/x", "../up", "acme;rm"])(
  "refuses %s as a source",
  async (spec) => {
    const { importer, close } = await createImporter();
    await expect(importer.import({ kind: "npm", spec, secret_slots: [] })).rejects.toMatchObject({
      code: expect.stringMatching(/^plugin\./),
    });
    await close();
  },
);

test("refuses names that an archive must not contain, and stores no bookkeeping files of npm", async () => {
  await expect(importUnusable("acme-twins")).rejects.toMatchObject({
    code: "package.unsafe",
    details: { rule: "collision" },
  });
  harmless ??= importHarmless();
  const { tree, verified } = await harmless;
  expect(existsSync(join(tree, "node_modules/.package-lock.json"))).toBe(false);
  expect(verified).toBe(tree);
}, 60_000);

test("inspects a registry package and reports a server, a kernel plugin, or why it is neither", async () => {
  const group = (category: string) => ({ "yaya.plugins.v1": { "acme-clock": { category } } });
  const files = { "x.js": "" };
  publish("@acme/shown", { bin: "x.js", version: "2.1.0" }, files);
  publish("acme-clock", { exports: "./x.js", bin: "x.js", ...group("tool") }, files);
  publish("acme-broken", { exports: "./x.js", bin: "x.js", ...group("nothing") }, files);
  publish("acme-library", { main: "x.js" }, files);
  const { importer, close } = await createImporter();
  const inspect = (spec: string) =>
    importer.inspect({ kind: "npm", spec, args: [], secret_slots: ["api_key"] });
  expect(await inspect("@acme/shown")).toEqual({
    kind: "mcp_servers",
    packages: [
      {
        name: "@acme/shown",
        package_id: "acme/shown",
        version: "2.1.0",
        secret_slots: ["api_key"],
        exports: ["*"],
        binds: true,
      },
    ],
    plugins: [],
    left_out: [],
    notes: [],
  });
  expect(await inspect("acme-clock")).toMatchObject({
    kind: "kernel_plugins",
    packages: [],
    plugins: [{ name: "acme-clock", version: "1.0.0", category: "tool", source: "acme-clock" }],
  });
  // A kernel plugin that is invalid is an error, and not an MCP server.
  await expect(inspect("acme-broken")).rejects.toMatchObject({ code: "plugin.invalid" });
  await expect(inspect("acme-library")).rejects.toThrow("it has no program to start");
  await expect(inspect("./folder")).rejects.toMatchObject({ code: "plugin.source_invalid" });
  await close();
});
