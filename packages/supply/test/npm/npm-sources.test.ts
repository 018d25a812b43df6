/**
 * npm packages with dependencies from outside the registry, with the real npm, a local registry and a canary server.
 */
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { processesWith } from "../../../../test/support/gateway/processes.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { createPackageImporter, createPluginSources, openContentStore } from "../../src/index.ts";
import { createNpm, type Npm } from "../../src/npm/npm-command.ts";
import { type Lock, vetLock } from "../../src/npm/vet-lock.ts";
import { packPackage, type Registry, startRegistry } from "../support/npm-registry.ts";

let registry: Registry;
let canary: Server;
let foreign: string;
let root: string;
let npm: Npm;
const requests: string[] = [];

beforeAll(async () => {
  registry = await startRegistry();
  root = mkdtempSync(join(tmpdir(), "backplane-npm-sources-"));
  canary = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    response.writeHead(500).end();
  });
  canary.on("connection", () => requests.push("connection"));
  await new Promise<void>((resolve) => canary.listen(0, "127.0.0.1", resolve));
  foreign = `http://127.0.0.1:${(canary.address() as AddressInfo).port}`;
  const local = JSON.stringify({ name: "local", version: "1.0.0" });
  mkdirSync(join(root, "local"));
  writeFileSync(join(root, "local", "package.json"), local);
  writeFileSync(join(root, "local.tgz"), packPackage({ "package.json": local }));
  npm = createNpm({ env: npmEnvironment() });
});
afterAll(async () => {
  await registry.close();
  canary.closeAllConnections();
  await new Promise((resolve) => canary.close(resolve));
  rmSync(root, { recursive: true, force: true });
});
beforeEach(() => void requests.splice(0));

function npmEnvironment() {
  return {
    PATH: process.env.PATH,
    HOME: root,
    NPM_CONFIG_REGISTRY: registry.url,
    NPM_CONFIG_CACHE: join(root, "cache"),
    NPM_CONFIG_FETCH_RETRIES: "0",
  };
}

const TOOL = { category: "tool", module: "./plugin.js" };

let count = 0;
function publish(about: object, files: Record<string, string> = {}, name = `acme-${count++}`): string {
  const manifest = { name, version: "1.0.0", bin: "bin.js", ...about };
  const archive = packPackage({ "package.json": JSON.stringify(manifest), "bin.js": "", ...files });
  registry.publish(name, manifest.version, archive, manifest);
  return name;
}

async function importServer(spec: string, with_npm = npm) {
  const store = openContentStore(join(root, "blobs"));
  const schemas = shareSchemas();
  const importer = createPackageImporter({
    store,
    schemas,
    host: { os: "linux", arch: "amd64" },
    npm: with_npm,
  });
  try {
    const imported = await importer.import({ kind: "npm", spec, secret_slots: [] });
    return await store.verifyTree(imported.digest);
  } finally {
    await schemas.close();
  }
}

// npm cannot fetch these and fails, so each of them needs an npm of its own.
const FAILING: [what: string, about: () => object][] = [
  ["from a URL", () => ({ dependencies: { wanted: `${foreign}/x.tgz` } })],
  ["from an https URL", () => ({ dependencies: { wanted: `${foreign.replace("http:", "https:")}/x.tgz` } })],
  ["from git", () => ({ dependencies: { wanted: `git+${foreign}/x.git` } })],
  ["from a GitHub repository", () => ({ dependencies: { wanted: "acme/somewhere" } })],
  ["from a link", () => ({ dependencies: { wanted: `link:${join(root, "local")}` } })],
  ["that is a peer dependency", () => ({ peerDependencies: { wanted: `${foreign}/x.tgz` } })],
];

for (const [name, about] of FAILING) {
  verifies(
    "sec.npm-sources",
    `refuses a foreign dependency ${name}, reports its path and sends no request`,
    async () => {
      const inner = publish(about());
      const middle = publish({ dependencies: { [inner]: "^1.0.0" } });
      const outer = publish({ dependencies: { [middle]: "1.x" } });
      const [spec] = Object.values(about()).flatMap((specs: Record<string, string>) => specs.wanted);
      await expect(importServer(outer)).rejects.toMatchObject({
        code: "package.dependency_refused",
        message: expect.stringContaining(
          `${outer} > ${middle} > ${inner} > wanted comes from ${JSON.stringify(spec)}`,
        ),
      });
      // npm has resolved the tree once.
      expect(registry.requests.filter((path) => path === `/${middle}`)).toHaveLength(1);
      expect(requests).toEqual([]);
    },
    120_000,
  );
}

// npm resolves all of these together. Each row then vets the resulting lock without the packages of the other rows.
const LOCKED: [title: string, spec: () => string, createFields: (specs: object, name: string) => object][] = [
  ["from a file", () => `file:${join(root, "local.tgz")}`, (dependencies) => ({ dependencies })],
  ["from a folder", () => `file:${join(root, "local")}`, (dependencies) => ({ dependencies })],
  ["that is optional", () => `${foreign}/x.tgz`, (optionalDependencies) => ({ optionalDependencies })],
  [
    "that is an optional peer dependency",
    () => `${foreign}/x.tgz`,
    (peerDependencies, name) => ({ peerDependencies, peerDependenciesMeta: { [name]: { optional: true } } }),
  ],
];

interface ResolvedTree {
  outer: string;
  middle: string;
  inner: string[];
  lock: Lock;
  requests: string[];
}

/** Imports a package with the dependencies of all rows, which must be refused, and keeps the lock of npm. */
async function resolveLocked(): Promise<ResolvedTree> {
  const inner = LOCKED.map(([, spec, createFields], row) =>
    publish(createFields({ [`wanted-${row}`]: spec() }, `wanted-${row}`)),
  );
  const middle = publish({ dependencies: Object.fromEntries(inner.map((name) => [name, "^1.0.0"])) });
  const outer = publish({ dependencies: { [middle]: "1.x" } });
  let lock: Lock | undefined;
  const watched: Npm = {
    ...npm,
    install: (args, cwd, vet, watch) =>
      npm.install(
        args,
        cwd,
        async (resolved) => {
          lock = resolved as Lock;
          await vet(resolved);
        },
        watch,
      ),
  };
  await expect(importServer(outer, watched)).rejects.toMatchObject({ code: "package.dependency_refused" });
  return { outer, middle, inner, lock: lock!, requests: [...requests] };
}

let resolving: Promise<ResolvedTree> | undefined;
for (const [row, [name, spec]] of LOCKED.entries()) {
  verifies(
    "sec.npm-sources",
    `refuses a foreign dependency ${name}, reports its path and sends no request`,
    async () => {
      resolving ??= resolveLocked();
      const { outer, middle, inner, lock, requests: sent } = await resolving;
      const packages = Object.fromEntries(
        Object.entries(lock.packages!).filter(([path]) =>
          inner.every((name, index) => index === row || path !== `node_modules/${name}`),
        ),
      );
      const { origins } = await npm.readSettings(root);
      expect(() => vetLock({ packages }, origins)).toThrow(
        `${outer} > ${middle} > ${inner[row]} > wanted-${row} comes from ${JSON.stringify(spec())}`,
      );
      expect(sent).toEqual([]);
    },
    120_000,
  );
}

test("kills npm and fetches no archive when the lock is refused", async () => {
  const name = publish({ dependencies: { wanted: `file:${join(root, "local")}` } });
  await expect(importServer(name)).rejects.toMatchObject({
    code: "package.dependency_refused",
    message: expect.stringContaining(`${name} > wanted comes from "file:`),
  });
  expect(registry.requests.filter((path) => path.startsWith(`/${name}/-/`))).toEqual([]);
  await expect.poll(() => processesWith(root), { timeout: 10_000 }).toEqual([]);
}, 120_000);

test("runs npm twice if it cannot be paused, and checks the lock before the second run", async () => {
  const folder = join(root, "other-npm");
  mkdirSync(folder);
  // The modules of npm are not next to this file.
  const program = realpathSync(execFileSync("which", ["npm"], { encoding: "utf8" }).trim());
  writeFileSync(join(folder, "npm.js"), `require(${JSON.stringify(program)});`);
  symlinkSync("npm.js", join(folder, "npm"));
  const other = createNpm({ env: { ...npmEnvironment(), PATH: folder } });
  const good = publish({});
  expect(existsSync(join(await importServer(good, other), "node_modules", good, "bin.js"))).toBe(true);
  const bad = publish({ dependencies: { wanted: `file:${join(root, "local")}` } });
  await expect(importServer(bad, other)).rejects.toMatchObject({ code: "package.dependency_refused" });
  expect(registry.requests.filter((path) => path.startsWith(`/${bad}/-/`))).toEqual([]);
  // npm fails in the first run and does not show the tree, so the path is found in the metadata.
  const inner = publish({ dependencies: { wanted: `${foreign}/x.tgz` } });
  const outer = publish({ dependencies: { [inner]: "1.0.0" } });
  await expect(importServer(outer, other)).rejects.toMatchObject({
    code: "package.dependency_refused",
    message: expect.stringContaining(`${outer} > ${inner} > wanted comes from "${foreign}/x.tgz"`),
  });
  expect(requests).toEqual([]);
}, 120_000);

verifies(
  "sec.npm-sources",
  "refuses foreign dependencies of bundled packages and in a shrinkwrap",
  async () => {
    const bundled = { name: "inside", version: "1.0.0", dependencies: { wanted: `${foreign}/x.tgz` } };
    const bundling = publish(
      { dependencies: { inside: "1.0.0" }, bundleDependencies: ["inside"] },
      { "node_modules/inside/package.json": JSON.stringify(bundled) },
    );
    await expect(importServer(bundling)).rejects.toMatchObject({
      code: "package.dependency_refused",
      message: expect.stringContaining(`${bundling} > inside > wanted`),
    });
    const plain = publish({});
    const wrapped = `acme-wrapped-${count++}`;
    const shrinkwrap = {
      name: wrapped,
      version: "1.0.0",
      lockfileVersion: 3,
      packages: {
        "": { name: wrapped, version: "1.0.0", dependencies: { [plain]: "1.0.0" } },
        [`node_modules/${plain}`]: { version: "1.0.0", resolved: `${foreign}/plain.tgz` },
      },
    };
    publish(
      { dependencies: { [plain]: "1.0.0" }, _hasShrinkwrap: true },
      { "npm-shrinkwrap.json": JSON.stringify(shrinkwrap) },
      wrapped,
    );
    await expect(importServer(wrapped)).rejects.toMatchObject({ code: "package.dependency_refused" });
    expect(requests).toEqual([]);
  },
  120_000,
);

verifies(
  "sec.npm-sources",
  "refuses an archive on another host that the registry metadata specifies",
  async () => {
    const on_other_host = publish({});
    registry.tarballs.set(on_other_host, `${foreign}/elsewhere.tgz`);
    const outer = publish({ dependencies: { [on_other_host]: "1.0.0" } });
    await expect(importServer(outer)).rejects.toMatchObject({
      code: "package.dependency_refused",
      message: expect.stringContaining(`${outer} > ${on_other_host} comes from`),
    });
    await expect(importServer(on_other_host)).rejects.toMatchObject({ code: "package.dependency_refused" });
    expect(requests).toEqual([]);
  },
  120_000,
);

/** The tree of a package with an alias within the registry, and with settings that point to another host. */
async function importWithSettings(): Promise<{ tree: string; plain: string }> {
  const plain = publish({});
  const name = publish(
    {
      dependencies: { [plain]: "1.0.0", other: `npm:${plain}@^1.0.0` },
      overrides: { [plain]: `${foreign}/x.tgz` },
      publishConfig: { registry: foreign },
    },
    { ".npmrc": `registry=${foreign}\n@acme:registry=${foreign}\nproxy=${foreign}\n` },
  );
  const tree = await importServer(name);
  expect(requests).toEqual([]);
  return { tree, plain };
}

let with_settings: ReturnType<typeof importWithSettings> | undefined;

verifies(
  "sec.npm-sources",
  "refuses an alias of another source and accepts one within the registry",
  async () => {
    with_settings ??= importWithSettings();
    const { tree, plain } = await with_settings;
    expect(existsSync(join(tree, "node_modules/other/package.json"))).toBe(true);
    const hidden = publish({ dependencies: { other: `npm:${plain}@${foreign}/x.tgz` } });
    await expect(importServer(hidden)).rejects.toMatchObject({
      code: expect.stringMatching(/refused|failed/),
    });
    expect(requests).toEqual([]);
  },
  120_000,
);

test("ignores .npmrc, publishConfig and overrides of a package", async () => {
  with_settings ??= importWithSettings();
  const { tree, plain } = await with_settings;
  expect(existsSync(join(tree, "node_modules", plain, "package.json"))).toBe(true);
}, 120_000);

verifies(
  "sec.npm-sources",
  "applies the same rules to kernel plugins from the registry and from an archive",
  async () => {
    const entry = { "yaya.plugins.v1": { "acme-tool": TOOL } };
    const files = { "plugin.js": "export const plugin = {};" };
    const inner = publish({ dependencies: { wanted: `${foreign}/x.tgz` } });
    const about = { ...entry, type: "module", main: "plugin.js", dependencies: { [inner]: "1.0.0" } };
    const name = publish(about, files);
    const sources = createPluginSources({
      home_plugins_dir: join(root, "home/plugins"),
      bundled_roots: [],
      npm,
    });
    const refusal = {
      code: "package.dependency_refused",
      message: expect.stringContaining(`${name} > ${inner} > wanted`),
    };
    await expect(sources.install(name, { editable: false })).rejects.toMatchObject(refusal);
    const archive = join(root, "plugin.tgz");
    writeFileSync(
      archive,
      packPackage({ "package.json": JSON.stringify({ name, version: "1.0.0", ...about }), ...files }),
    );
    await expect(sources.install(archive, { editable: false })).rejects.toMatchObject(refusal);
    expect((await sources.discover()).entries).toEqual([]);
    expect(requests).toEqual([]);
  },
  120_000,
);
