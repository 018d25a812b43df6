import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BackplaneError, codeOf, type ProgressReport, type ProgressStep } from "@backplane/contract";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type CheckProvenance, createPluginSources, type PluginSourcesOptions } from "../../src/index.ts";
import { createNpm, NPM_FLAGS, type Npm } from "../../src/npm/npm-command.ts";
import { packPackage, type Registry, startRegistry } from "../support/npm-registry.ts";

let registry: Registry;
let root: string;
let npm_home: string;
/** Shared, because each npm starts one more process to read the settings. */
let npm: Npm;
let marker_file: string;
let plugins: string;

beforeAll(async () => {
  registry = await startRegistry();
  npm_home = mkdtempSync(join(tmpdir(), "backplane-sources-npm-"));
  // Settings that a user may have; they must not allow scripts to run.
  npm = createNpm({
    env: {
      PATH: process.env.PATH,
      HOME: npm_home,
      npm_config_registry: registry.url,
      npm_config_cache: join(npm_home, "cache"),
      npm_config_ignore_scripts: "false",
    },
  });
});
afterAll(async () => {
  await registry.close();
  rmSync(npm_home, { recursive: true, force: true });
});
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "backplane-sources-")));
  marker_file = join(root, "a-script-ran");
  plugins = join(root, "home/plugins");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const createSources = (options: Partial<PluginSourcesOptions> = {}) =>
  createPluginSources({ home_plugins_dir: plugins, bundled_roots: [], npm, ...options });
const catchCode = (work: Promise<unknown>) =>
  work.then(
    () => "resolved",
    (error: unknown) => codeOf(error) ?? error,
  );
const discoverSources = async (sources = createSources()) =>
  (await sources.discover()).entries.map(({ name, origin, version }) => `${origin} ${name} ${version}`);

interface Package {
  name: string;
  version?: string;
  plugins?: Record<string, unknown>;
  more?: object;
  files?: Record<string, string>;
}

/** Creates a package whose scripts and module write to the marker file when they run. */
function makePackage({ name, version = "1.0.0", plugins: group, more, files = {} }: Package): string {
  const dir = mkdtempSync(join(root, "package-"));
  const script = `echo "$npm_lifecycle_event" >> '${marker_file}'`;
  const steps = ["preinstall", "install", "postinstall", "prepare", "prepack", "postpack", "preuninstall"];
  const manifest = {
    name,
    version,
    scripts: Object.fromEntries(steps.map((step) => [step, script])),
    main: "index.js",
    ...(group === undefined ? {} : { "yaya.plugins.v1": group }),
    ...more,
  };
  writeFileSync(join(dir, "package.json"), JSON.stringify(manifest));
  writeFileSync(
    join(dir, "index.js"),
    `require("node:fs").appendFileSync(${JSON.stringify(marker_file)}, "import");`,
  );
  for (const [path, text] of Object.entries(files)) writeFileSync(join(dir, path), text);
  return dir;
}

function packFolder(dir: string): string {
  const files = Object.fromEntries(readdirSync(dir).map((name) => [name, readFileSync(join(dir, name))]));
  const file = join(dir, "packed.tgz");
  writeFileSync(file, packPackage(files));
  return file;
}

async function npmPack(dir: string): Promise<string> {
  await npm.run(["pack", ...NPM_FLAGS, "--pack-destination", dir], dir);
  return join(dir, readdirSync(dir).find((name) => name.endsWith(".tgz"))!);
}

function publish(definition: Package): void {
  const dir = makePackage(definition);
  const manifest = JSON.parse(readFileSync(join(dir, "package.json"), "utf8")) as object;
  registry.publish(definition.name, definition.version ?? "1.0.0", readFileSync(packFolder(dir)), manifest);
}

const TOOL = { category: "tool" };

verifies(
  ["plug.install", "plug.trust"],
  "inspects, installs, upgrades and removes a package of the registry without running its code",
  async () => {
    publish({ name: "helper-lib" });
    const more = { dependencies: { "helper-lib": "1.0.0" } };
    publish({ name: "@acme/bash", plugins: { bash: TOOL }, more });
    publish({ name: "@acme/bash", version: "1.1.0", plugins: { bash: TOOL }, more });
    const sources = createSources();
    // Inspecting returns name, category and version, and changes nothing.
    const definition = { name: "bash", category: "tool", origin: "installed", source: "@acme/bash" };
    expect(await sources.inspect("@acme/bash@1.0.0")).toMatchObject([{ ...definition, version: "1.0.0" }]);
    expect(existsSync(plugins)).toBe(false);

    const [entry] = await sources.install("@acme/bash@1.0.0", { editable: false });
    const dir = join(plugins, "node_modules/@acme/bash");
    expect(entry).toEqual({ ...definition, version: "1.0.0", dir, module: join(dir, "index.js") });
    expect(existsSync(join(plugins, "node_modules/helper-lib/index.js"))).toBe(true);
    expect(await discoverSources()).toEqual(["installed bash 1.0.0"]);

    await sources.install("@acme/bash", { editable: false });
    expect(await discoverSources(sources)).toEqual(["installed bash 1.1.0"]);
    // The path of the module does not depend on the version.
    expect((await sources.discover()).entries[0]!.module).toBe(entry!.module);

    await sources.remove("bash");
    expect(await discoverSources()).toEqual([]);
    expect(existsSync(join(plugins, "node_modules/helper-lib"))).toBe(false);
    expect(existsSync(marker_file)).toBe(false);
  },
  120_000,
);

verifies(
  "pkg.sign",
  "records the provenance of a kernel plugin with its version, and keeps the installed one if the next is refused",
  async () => {
    const checked: string[] = [];
    const provenance: CheckProvenance = async ({ name, version, integrity }) => {
      checked.push(`${name} ${version} ${integrity.slice(0, 7)}`);
      if (version !== "1.0.0") throw new BackplaneError("provenance.invalid");
      const checked_at = "2026-05-01T00:00:00.000Z";
      return { state: "none", reason: null, build: null, logged_at: null, checked_at, trust_root: null };
    };
    publish({ name: "proven", plugins: { proven: TOOL } });
    const sources = createSources({ provenance });
    const listStates = async () =>
      (await sources.discover()).entries.map((entry) => `${entry.version} ${entry.provenance?.state}`);
    const [entry] = await sources.install("proven", { editable: false });
    expect(entry!.provenance?.state).toBe("none");
    publish({ name: "proven", version: "2.0.0", plugins: { proven: TOOL } });
    registry.requests.length = 0;
    const refused = sources.install("proven", { editable: false });
    expect(await catchCode(refused)).toBe("provenance.invalid");
    expect(registry.requests.filter((path) => path.endsWith(".tgz"))).toEqual([]);
    expect(await listStates()).toEqual(["1.0.0 none"]);
    // The same version from an archive of the operator has no provenance.
    const archive = packFolder(makePackage({ name: "proven", plugins: { proven: TOOL } }));
    await sources.install(archive, { editable: false });
    expect(await listStates()).toEqual(["1.0.0 undefined"]);
    expect(checked).toEqual(["proven 1.0.0 sha512-", "proven 2.0.0 sha512-"]);
  },
  120_000,
);

test("runs the scripts of the test packages when npm is allowed to run scripts", async () => {
  const dir = makePackage({ name: "marks", plugins: { marks: TOOL } });
  await npm.run(["install", "--offline", "--no-audit", "--no-fund", "--no-update-notifier"], dir);
  expect(readFileSync(marker_file, "utf8")).toContain("postinstall");
});

verifies(
  "plug.install",
  "installs from an archive and from a folder, copied or linked, and refuses to remove a bundled plugin",
  async () => {
    const archive = await npmPack(makePackage({ name: "packed", plugins: { packed: TOOL } }));
    const folder = makePackage({ name: "copied", plugins: { copied: { category: "skill" } } });
    const linked = makePackage({
      name: "linked",
      plugins: { linked: { category: "memory", module: "index.js" } },
    });
    const bundled = makePackage({ name: "comes-along", plugins: { "comes-along": { category: "adapter" } } });
    const sources = createSources({ bundled_roots: [bundled, join(root, "left-out")] });
    registry.requests.length = 0;
    expect(await sources.inspect(archive)).toMatchObject([{ name: "packed", category: "tool" }]);
    expect(await sources.inspect(folder)).toMatchObject([
      { name: "copied", category: "skill", source: folder },
    ]);
    await sources.install(archive, { editable: false });
    const [copy] = await sources.install(folder, { editable: false });
    await sources.install(linked, { editable: true });
    expect(copy).toMatchObject({ origin: "local", source: folder });
    expect(copy!.dir.startsWith(join(plugins, "local"))).toBe(true);
    expect(await discoverSources(sources)).toEqual([
      "bundled comes-along 1.0.0",
      "installed packed 1.0.0",
      "local copied 1.0.0",
      "local linked 1.0.0",
    ]);
    // The copy does not need the original; the link shows its current state.
    rmSync(archive);
    rmSync(folder, { recursive: true });
    const manifest = readFileSync(join(linked, "package.json"), "utf8");
    writeFileSync(join(linked, "package.json"), manifest.replace("1.0.0", "2.0.0"));
    expect(await discoverSources()).toEqual([
      "installed packed 1.0.0",
      "local copied 1.0.0",
      "local linked 2.0.0",
    ]);
    // A second install, after the archive of the first was removed.
    const second = packFolder(makePackage({ name: "second", plugins: { second: TOOL } }));
    await sources.install(second, { editable: false });
    for (const name of ["packed", "copied", "linked", "second"]) await sources.remove(name);
    expect(await discoverSources(sources)).toEqual(["bundled comes-along 1.0.0"]);
    expect([existsSync(copy!.dir), existsSync(linked)]).toEqual([false, true]);
    expect(await catchCode(sources.remove("comes-along"))).toBe("plugin.bundled");
    expect(await catchCode(sources.remove("nobody"))).toBe("plugin.not_found");
    expect(registry.requests).toEqual([]);
    expect(existsSync(marker_file)).toBe(false);
  },
  120_000,
);

test("keeps the installed plugins when an installation is refused or fails", async () => {
  publish({ name: "hidden", plugins: { hidden: TOOL } });
  publish({ name: "kept", plugins: { kept: TOOL }, more: { dependencies: { hidden: "1.0.0" } } });
  publish({ name: "no-plugin" });
  publish({
    name: "needs-more",
    plugins: { "needs-more": TOOL },
    more: { dependencies: { gone: "9.9.9" } },
  });
  publish({ name: "rival", plugins: { kept: TOOL } });
  const sources = createSources();
  await sources.install("kept", { editable: false });
  const before = realpathSync(join(plugins, "node_modules"));
  const cases: [string, string][] = [
    ["no-plugin", "plugin.invalid"],
    ["needs-more", "plugin.install_failed"],
    ["rival", "plugin.install_failed"],
    ["not-published", "plugin.install_failed"],
    ["-g", "plugin.source_invalid"],
    [join(root, "nothing-here"), "plugin.source_invalid"],
  ];
  for (const [source, code] of cases) {
    expect([source, await catchCode(sources.install(source, { editable: false }))]).toEqual([source, code]);
  }
  expect(await catchCode(sources.install("kept", { editable: true }))).toBe("plugin.source_invalid");
  expect(realpathSync(join(plugins, "node_modules"))).toBe(before);
  expect(readdirSync(join(plugins, "npm"))).toHaveLength(1);
  expect(await discoverSources(sources)).toEqual(["installed kept 1.0.0"]);
  // A plugin that is only a dependency is reported and not used.
  expect((await sources.discover()).problems).toEqual([
    {
      source: "hidden",
      error: "it is installed only as a dependency of another package; install it by its name",
    },
  ]);
  expect(existsSync(marker_file)).toBe(false);
}, 120_000);

test("copies a folder only when no link points outside it", async () => {
  const sources = createSources();
  const folder = makePackage({ name: "inner", plugins: { inner: TOOL } });
  mkdirSync(join(folder, "lib"));
  symlinkSync(join(folder, "index.js"), join(folder, "lib/again.js"));
  mkdirSync(join(folder, ".git"));
  const [entry] = await sources.install(folder, { editable: false });
  expect(realpathSync(join(entry!.dir, "lib/again.js"))).toBe(join(realpathSync(entry!.dir), "index.js"));
  expect(existsSync(join(entry!.dir, ".git"))).toBe(false);

  for (const target of ["/etc/passwd", "../../..", "nowhere"]) {
    const bad = makePackage({ name: "outer", plugins: { outer: TOOL } });
    symlinkSync(target, join(bad, "outside"));
    expect(await catchCode(sources.install(bad, { editable: false }))).toBe("plugin.install_failed");
  }
  expect(await discoverSources(sources)).toEqual(["local inner 1.0.0"]);
  expect(readdirSync(join(plugins, "local"))).toHaveLength(1);
  // A second install replaces the copy; the old one is removed at the next start.
  await sources.install(folder, { editable: false });
  expect(await discoverSources(createSources())).toEqual(["local inner 1.0.0"]);
  expect(readdirSync(join(plugins, "local"))).toHaveLength(1);
});

test("keeps the previous packages after an interrupted install, and removes its files at the next start", async () => {
  const archive = packFolder(makePackage({ name: "kept", plugins: { kept: TOOL } }));
  await createSources().install(archive, { editable: false });
  const link = join(plugins, "node_modules");
  expect(lstatSync(link).isSymbolicLink()).toBe(true);
  const other = packFolder(makePackage({ name: "other", plugins: { other: TOOL } }));
  const failing: Npm = {
    readSettings: (cwd) => npm.readSettings(cwd),
    findCli: () => npm.findCli(),
    run: (args, cwd) => npm.run(args, cwd),
    async install(...args) {
      expect(await npm.install(...args)).toBe(true);
      throw new Error("power failure");
    },
  };
  expect(await catchCode(createSources({ npm: failing }).install(other, { editable: false }))).toBeInstanceOf(
    Error,
  );
  mkdirSync(join(plugins, "npm/half-a-generation/node_modules"), { recursive: true });
  expect(await discoverSources()).toEqual(["installed kept 1.0.0"]);
  expect(readdirSync(join(plugins, "npm"))).toHaveLength(1);
});

test("keeps packages that were added by hand when another one is installed", async () => {
  const dir = join(plugins, "node_modules/by-hand");
  mkdirSync(dir, { recursive: true });
  const manifest = { name: "by-hand", version: "3.0.0", "yaya.plugins.v1": { "by-hand": TOOL } };
  writeFileSync(join(dir, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(dir, "index.js"), "");
  const sources = createSources();
  expect(await discoverSources(sources)).toEqual(["installed by-hand 3.0.0"]);
  const archive = packFolder(makePackage({ name: "packed", plugins: { packed: TOOL } }));
  await sources.install(archive, { editable: false });
  expect(await discoverSources(sources)).toEqual(["installed by-hand 3.0.0", "installed packed 1.0.0"]);
});

test("makes installed and copied plugins readable by sandbox users and writable only by the owner", async () => {
  for (const mask of [0o077, 0o000]) {
    rmSync(plugins, { recursive: true, force: true });
    const archive = packFolder(makePackage({ name: "packed", plugins: { packed: TOOL } }));
    const copied = makePackage({ name: "copied", plugins: { copied: TOOL }, files: { "run.sh": "" } });
    chmodSync(join(copied, "run.sh"), 0o777);
    chmodSync(join(copied, "index.js"), 0o600);
    const previous_umask = process.umask(mask);
    try {
      await createSources().install(archive, { editable: false });
      await createSources().install(copied, { editable: false });
    } finally {
      process.umask(previous_umask);
    }
    const modeOf = (...parts: string[]) => (statSync(join(plugins, ...parts)).mode & 0o777).toString(8);
    const [copy] = readdirSync(join(plugins, "local"));
    const modes = [
      ["node_modules"],
      ["node_modules", "packed"],
      ["node_modules", "packed", "index.js"],
      ["local", copy!],
      ["local", copy!, "index.js"],
      ["local", copy!, "run.sh"],
    ];
    expect(modes.map((parts) => modeOf(...parts))).toEqual(["755", "755", "644", "755", "644", "755"]);
    expect(["npm", "local"].map((name) => modeOf(name))).toEqual(["700", "700"]);
  }
});

test("reports a broken local.json and does not overwrite it", async () => {
  mkdirSync(plugins, { recursive: true });
  writeFileSync(join(plugins, "local.json"), "{");
  const sources = createSources();
  expect(await sources.discover()).toMatchObject({ entries: [], problems: [{ source: "local.json" }] });
  const folder = makePackage({ name: "inner", plugins: { inner: TOOL } });
  expect(await catchCode(sources.install(folder, { editable: true }))).toBe("plugin.install_failed");
  expect(readFileSync(join(plugins, "local.json"), "utf8")).toBe("{");
});

test("explains how to install npm when it is missing", async () => {
  const bin = join(root, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "node"), "#!/bin/sh\n");
  chmodSync(join(bin, "node"), 0o755);
  const missing_npm = createNpm({ node: join(bin, "node"), env: { PATH: bin } });
  const error = await createSources({ npm: missing_npm })
    .inspect("some-plugin")
    .catch((thrown: unknown) => thrown as Error & { fix: string });
  expect(error).toMatchObject({ code: "plugin.install_failed", fix: expect.stringContaining("Install npm") });
});

verifies(
  "tools.precedence",
  "dates a plugin by its first installation, or else by the creation of its folder, until it is removed",
  async () => {
    const sources = createSources();
    const readDates = async () =>
      new Map((await sources.discover()).entries.map(({ name, installed_at }) => [name, installed_at]));
    const before = new Date().toISOString();
    const folder = makePackage({ name: "noted", plugins: { noted: TOOL } });
    await sources.install(folder, { editable: false });
    const first = (await readDates()).get("noted")!;
    expect(first >= before && first <= new Date().toISOString()).toBe(true);
    await sources.install(folder, { editable: false });
    expect((await readDates()).get("noted")).toBe(first);
    const meta = join(plugins, "install-meta.json");
    expect(JSON.parse(readFileSync(meta, "utf8"))).toEqual({ [folder]: first });
    writeFileSync(meta, "broken");
    const [local] = (await sources.discover()).entries;
    expect(local!.installed_at).toBe(statSync(local!.dir).birthtime.toISOString());
    writeFileSync(meta, JSON.stringify({ [folder]: "2020-01-01T00:00:00.000Z" }));
    expect((await readDates()).get("noted")).toBe("2020-01-01T00:00:00.000Z");
    await sources.remove("noted");
    expect(JSON.parse(readFileSync(meta, "utf8"))).toEqual({});
  },
);

/** An operation that is cancelled when it reaches a step, as if the client disconnected at that moment. */
function operationUntil(last: ProgressStep) {
  const stop = new AbortController();
  const steps: ProgressStep[] = [];
  const report = ({ step }: ProgressReport) => {
    steps.push(step);
    if (step === last) stop.abort();
  };
  return { signal: stop.signal, report, steps };
}

verifies(
  ["plug.install", "run.progress"],
  "leaves nothing behind when an installation is cancelled",
  async () => {
    publish({ name: "acme-slow", plugins: { slow: TOOL } });
    const folder = makePackage({ name: "acme-folder", plugins: { folder: TOOL } });
    const archive = packFolder(makePackage({ name: "acme-packed", plugins: { packed: TOOL } }));
    const sources = createSources();
    const cases: [source: string, editable: boolean, step: ProgressStep][] = [
      ["acme-slow", false, "read"],
      ["acme-slow", false, "resolve"],
      ["acme-slow", false, "download"],
      [archive, false, "download"],
      [folder, false, "read"],
      [folder, false, "unpack"],
      [folder, true, "read"],
    ];
    for (const [source, editable, step] of cases) {
      const work = sources.install(source, { editable }, operationUntil(step));
      expect(await catchCode(work), `${source} ${step}`).toBe("request.cancelled");
    }
    expect(await discoverSources(sources)).toEqual([]);
    for (const name of ["npm", "local"]) {
      const dir = join(plugins, name);
      expect(existsSync(dir) ? readdirSync(dir) : []).toEqual([]);
    }
    // The transaction has begun in this step, so it is completed.
    const operation = operationUntil("store");
    await sources.install(folder, { editable: false }, operation);
    expect(operation.steps).toEqual(["read", "read", "unpack", "store"]);
    expect(await discoverSources(sources)).toEqual(["local folder 1.0.0"]);
  },
);
