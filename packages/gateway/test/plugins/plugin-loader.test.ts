import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { codeOf, type KernelPlugin, type PluginEntry } from "@backplane/contract";
import { createModuleHost } from "@backplane/runner";
import { testKernelPlugin } from "@backplane/sdk/testing";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { afterEach, expect, test } from "vitest";
import { eventually, isAlive } from "../../../../test/support/gateway/processes.ts";
import { createConfinedLoader } from "../../../../test/support/kernel-plugins/confined-loader.ts";
import { withBundledHost } from "../../../../test/support/kernel-plugins/plugin-host.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { systemClock } from "../../src/host/clock.ts";
import { createPluginLoader, type PluginLoaderOptions } from "../../src/plugins/plugin-loader.ts";

const NO_NETWORK = { allowed_domains: [] };
const FIXTURES = join(import.meta.dirname, "../fixtures/plugins");
const cleanups: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanups.splice(0).reverse()) await cleanUp();
});

function createHome(): string {
  const home = mkdtempSync(join(tmpdir(), "backplane-loader-"));
  cleanups.push(() => rmSync(home, { recursive: true, force: true }));
  return home;
}

function createLoader(home: string, options: Partial<PluginLoaderOptions> = {}) {
  const loader = createPluginLoader({
    home,
    clock: systemClock(),
    log: createTestLogger(),
    moduleHost: (host) => createModuleHost(withBundledHost(host)),
    ...options,
  });
  cleanups.push(() => loader.close());
  return loader;
}

const readFields = (plugin: KernelPlugin) =>
  Object.fromEntries(Object.entries(plugin).filter(([, value]) => typeof value !== "function"));
const formatEntries = (entries: readonly PluginEntry[]) =>
  entries.map(({ name, origin }) => `${origin} ${name}`).sort();

test("finds the bundled plugins among the installed dependencies", async () => {
  const { dependencies } = JSON.parse(readFileSync("packages/gateway/package.json", "utf8")) as {
    dependencies: Record<string, string>;
  };
  const { entries, problems } = await createLoader(createHome()).discover();
  const expected = Object.keys(dependencies).filter((name) => name.startsWith("@backplane/plugin-"));
  const sources = new Set([...entries.map(({ source }) => source), ...problems.map(({ source }) => source)]);
  expect([...sources].sort()).toEqual(expected.sort());
  expect(entries.every(({ origin }) => origin === "bundled")).toBe(true);
});

verifies(
  "plug.discovery",
  "discovers bundled, installed and local plugins in increasing precedence",
  async () => {
    const home = createHome();
    const plugins = join(home, "plugins");
    const missing = join(home, "not-there");
    const copy = (name: string, to: string, category?: string) => {
      cpSync(join(FIXTURES, name), to, { recursive: true });
      const file = join(to, "package.json");
      const manifest = JSON.parse(readFileSync(file, "utf8")) as { name: string; [key: string]: unknown };
      manifest.version = "2.0.0";
      if (category !== undefined) manifest["yaya.plugins.v1"] = { [name]: { category } };
      writeFileSync(file, JSON.stringify(manifest));
    };
    const loader = createLoader(home, {
      bundled_roots: [join(FIXTURES, "shop"), join(FIXTURES, "greeter"), missing],
    });
    expect(formatEntries((await loader.discover()).entries)).toEqual(["bundled greeter", "bundled shop"]);

    mkdirSync(plugins, { recursive: true });
    copy("greeter", join(plugins, "node_modules/fixture-greeter"));
    copy("emitter", join(plugins, "node_modules/@acme/emitter"));
    copy("fails-on-load", join(plugins, "node_modules/fixture-fails-on-load"), "gadget");
    mkdirSync(join(plugins, "node_modules/left-alone"), { recursive: true });
    writeFileSync(join(plugins, "node_modules/left-alone/package.json"), '{"name": "left-alone"}');
    const installed = await loader.discover();
    expect(formatEntries(installed.entries)).toEqual([
      "bundled shop",
      "installed emitter",
      "installed greeter",
    ]);
    expect(installed.problems).toEqual([
      {
        source: "fixture-fails-on-load",
        error: expect.stringContaining("the category of fails-on-load is not one of"),
      },
    ]);

    copy("shop", join(home, "my-shop"));
    await loader.install(join(home, "my-shop"), { editable: true });
    const { entries } = await loader.discover();
    expect(entries.map(({ name, origin, version }) => `${origin} ${name} ${version}`)).toEqual([
      "installed emitter 2.0.0",
      "installed greeter 2.0.0",
      "local shop 2.0.0",
    ]);
    // An entry is sufficient to load its plugin in either mode.
    for (const entry of entries) {
      for (const mode of ["inline", "hosted"] as const) {
        const loaded = await loader.load(entry, mode, NO_NETWORK);
        expect(loaded.plugin.name).toBe(entry.name);
        await loaded.close();
      }
    }
  },
);

verifies("approval.digest", "changes the digest when files change under the same version", async () => {
  const home = createHome();
  const folder = join(home, "my-shop");
  cpSync(join(FIXTURES, "shop"), folder, { recursive: true });
  const loader = createLoader(home, { bundled_roots: [join(FIXTURES, "greeter")] });
  await loader.install(folder, { editable: true });
  const { entries } = await loader.discover();
  const readDigest = async (name: string, mode: "inline" | "hosted") => {
    const loaded = await loader.load(entries.find((entry) => entry.name === name)!, mode, NO_NETWORK);
    await loaded.close();
    return loaded.digest;
  };
  const first = await readDigest("shop", "inline");
  expect(first).toMatch(/^sha256:/);
  expect(await readDigest("shop", "hosted")).toBe(first);
  mkdirSync(join(folder, "node_modules"));
  writeFileSync(join(folder, "node_modules/x.js"), "");
  expect(await readDigest("shop", "inline")).toBe(first);
  writeFileSync(join(folder, "more.js"), "export {};\n");
  expect(await readDigest("shop", "inline")).not.toBe(first);
  // Bundled plugins change with the version of the gateway.
  expect(await readDigest("greeter", "inline")).toBeUndefined();
});

test("loads every bundled plugin inline and hosted with the same description", async () => {
  const loader = createLoader(createHome());
  const { entries, problems } = await loader.discover();
  expect(problems).toEqual([]);
  for (const entry of entries) {
    const results = [];
    for (const mode of ["inline", "hosted"] as const) {
      const loaded = await loader.load(entry, mode, NO_NETWORK);
      const { plugin } = loaded;
      results.push(JSON.stringify({ ...readFields(plugin), subscriptions: plugin.subscriptions() }));
      await loaded.close();
    }
    expect(JSON.parse(results[1]!)).toEqual(JSON.parse(results[0]!));
  }
});

test("creates a separate private state folder for each plugin", () => {
  const home = createHome();
  const dir = createLoader(home).stateDir("shop");
  expect(dir).toBe(join(home, "plugins/state/shop"));
  expect(statSync(dir).mode & 0o777).toBe(0o700);
  expect(createLoader(home).stateDir("shop")).toBe(dir);
});

test("runs no plugin code during discovery or inspection", async () => {
  const home = createHome();
  const trap = join(home, "trap");
  const mark = join(home, "executed");
  mkdirSync(trap);
  writeFileSync(join(trap, "index.js"), `require("node:fs").writeFileSync(${JSON.stringify(mark)}, "");`);
  writeFileSync(
    join(trap, "package.json"),
    JSON.stringify({ name: "trap", version: "1.0.0", "yaya.plugins.v1": { trap: { category: "skill" } } }),
  );
  const loader = createLoader(home, { bundled_roots: [trap] });
  expect((await loader.discover()).entries).toMatchObject([{ name: "trap", category: "skill" }]);
  expect(await loader.inspect(trap)).toMatchObject([{ name: "trap", category: "skill", version: "1.0.0" }]);
  expect(existsSync(mark)).toBe(false);
  // Control: loading the plugin does execute it.
  expect(
    codeOf(
      await loader.load((await loader.discover()).entries[0]!, "hosted", NO_NETWORK).catch((e: unknown) => e),
    ),
  ).toBe("plugin.invalid");
  expect(existsSync(mark)).toBe(true);
});

test.runIf(process.getuid!() === 0)(
  "hides the gateway's home from a hosted plugin that runs from a copy, even in the workspace around it",
  async () => {
    const root = createHome();
    const home = join(root, "node_modules/home");
    const folder = join(root, "packages/odd");
    for (const path of [folder, home]) mkdirSync(path, { recursive: true });
    writeFileSync(join(root, "package.json"), '{"workspaces": ["packages/*"]}');
    // The operator made the workspace readable for everyone, but not the plugin's folder.
    writeFileSync(join(home, "secret.key"), "secret");
    chmodSync(root, 0o755);
    chmodSync(folder, 0o700);
    writeFileSync(
      join(folder, "plugin.mjs"),
      `import { readdirSync } from "node:fs";
      const description = ["/plugin/packages/odd", "/plugin/node_modules", "/plugin/node_modules/home"]
        .map((path) => readdirSync(path).join()).join(" ");
      export const plugin = {
        name: "odd", version: "1.0.0", category: "tool", subscriptions: () => [], description,
      };`,
    );
    const loader = createConfinedLoader({ home });
    cleanups.push(() => loader.close());
    const entry: PluginEntry = {
      name: "odd",
      version: "1.0.0",
      category: "tool",
      origin: "local",
      source: folder,
      dir: folder,
      module: join(folder, "plugin.mjs"),
    };
    const { plugin } = await loader.load(entry, "hosted", NO_NETWORK);
    expect(plugin.description).toBe("plugin.mjs home ");
  },
);

test("starts a hosted plugin with a clean environment and its own home, and stops it with the loader", async () => {
  const home = createHome();
  const dir = join(home, "mirror");
  mkdirSync(dir);
  writeFileSync(
    join(dir, "plugin.mjs"),
    `export const plugin = { name: "mirror", version: "1.0.0", category: "skill", subscriptions: () => [],
      onEvent: (event, ctx) => ctx.emit("x.mirror.seen", { env: process.env, pid: process.pid, cwd: process.cwd() }, event) };`,
  );
  writeFileSync(
    join(dir, "package.json"),
    JSON.stringify({
      name: "mirror",
      version: "1.0.0",
      "yaya.plugins.v1": { mirror: { category: "skill", module: "./plugin.mjs" } },
    }),
  );
  process.env.BACKPLANE_TEST_SECRET = "hidden";
  cleanups.push(() => {
    delete process.env.BACKPLANE_TEST_SECRET;
  });
  const loader = createLoader(home, { bundled_roots: [dir], env: { HTTPS_PROXY: "http://proxy.acme" } });
  const [entry] = (await loader.discover()).entries;
  const { plugin } = await loader.load(entry!, "hosted", NO_NETWORK);
  const run = await testKernelPlugin(plugin, { state_dir: home });
  await run.event("x.mirror.look", {});
  const { cwd, env, pid } = run.emitted[0]!.payload as { env: object; pid: number; cwd: string };
  expect(env).toEqual({
    // The mark by which the descendants of a plain process are found when it exits.
    BACKPLANE_PROCESS_ID: expect.stringMatching(/^[0-9a-f]{32}$/),
    PATH: "/usr/local/bin:/usr/bin:/bin",
    HOME: loader.stateDir("mirror"),
    TMPDIR: loader.stateDir("mirror"),
    LANG: "C.UTF-8",
    HTTPS_PROXY: "http://proxy.acme",
  });
  expect(cwd).toBe(dir);
  expect(isAlive(pid)).toBe(true);
  await loader.close();
  await eventually(() => !isAlive(pid), 5_000, "the hosted plugin exits");
});

test("shows a sandboxed npm plugin only its sibling packages and its state", async () => {
  const home = createHome();
  const modules = join(home, "plugins/node_modules");
  for (const name of ["mirror", "beside"]) mkdirSync(join(modules, name), { recursive: true });
  writeFileSync(join(modules, "beside/package.json"), '{"name":"beside","type":"module","exports":"./i.js"}');
  writeFileSync(join(modules, "beside/i.js"), 'export const beside = "found";');
  writeFileSync(
    join(modules, "mirror/plugin.mjs"),
    `import { existsSync, readdirSync, writeFileSync } from "node:fs";
    import net from "node:net";
    import { beside } from "beside";
    const dial = (port, host) => new Promise((done) => net.connect(port, host).once("error", (error) => done(error.code)).once("connect", () => done("connected")));
    const web = (url) => fetch(url).then((response) => response.status, (error) => error.cause?.code);
    export const plugin = { name: "mirror", version: "1.0.0", category: "skill", subscriptions: () => [],
      async onEvent(event, ctx) {
        writeFileSync(ctx.stateDir + "/note", "kept");
        const { home, port } = event.payload;
        const seen = { beside, env: process.env, cwd: process.cwd(), tree: readdirSync("/plugin"), home: existsSync(home) };
        await ctx.emit("x.mirror.seen", { ...seen, dialed: [await dial(port, "127.0.0.1"), await web("http://localhost:" + port)] }, event);
      } };`,
  );
  const identity = { name: "mirror", version: "1.0.0", type: "module" };
  const plugins = { "yaya.plugins.v1": { mirror: { category: "skill", module: "./plugin.mjs" } } };
  writeFileSync(join(modules, "mirror/package.json"), JSON.stringify({ ...identity, ...plugins }));
  const server = createServer((_request, response) => response.end());
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  cleanups.push(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const loader = createConfinedLoader(
    { home, bundled_roots: [] },
    { egress: { operator_allows: [`localhost:${port}`] } },
  );
  cleanups.push(() => loader.close());
  const [entry] = (await loader.discover()).entries;
  const { plugin } = await loader.load(entry!, "hosted", NO_NETWORK);
  const run = await testKernelPlugin(plugin, { state_dir: home });
  await run.event("x.mirror.look", { home, port });
  expect(run.emitted[0]!.payload).toEqual({
    beside: "found",
    env: {
      PATH: "/usr/local/bin:/usr/bin:/bin",
      HOME: "/sandbox/state",
      TMPDIR: "/sandbox/scratch",
      LANG: "C.UTF-8",
    },
    cwd: "/plugin/node_modules/mirror",
    tree: ["node_modules"],
    home: false,
    dialed: ["ECONNREFUSED", "ECONNREFUSED"],
  });
  expect(readFileSync(join(loader.stateDir("mirror"), "note"), "utf8")).toBe("kept");
});

test("kills a sandboxed plugin that exceeds its memory limit and reports why", async () => {
  const home = createHome();
  const dir = join(home, "glutton");
  mkdirSync(dir);
  writeFileSync(
    join(dir, "plugin.mjs"),
    `const kept = [];
    export const plugin = { name: "glutton", version: "1.0.0", category: "skill", subscriptions: () => [],
      async onEvent() { for (;;) { kept.push(Buffer.alloc(16 * 1024 * 1024, 1)); await new Promise(setImmediate); } } };`,
  );
  const entry = { name: "glutton", version: "1.0.0", category: "skill", origin: "local" } as const;
  const limits = { memory_bytes: 192 * 1024 * 1024 };
  const loader = createConfinedLoader({ home, bundled_roots: [] }, { sandbox: { limits } });
  cleanups.push(() => loader.close());
  const { plugin } = await loader.load(
    { ...entry, source: dir, dir, module: join(dir, "plugin.mjs") },
    "hosted",
    NO_NETWORK,
  );
  const run = await testKernelPlugin(plugin, { state_dir: home });
  const error = await run.event("x.glutton.eat", {}).then(
    () => expect.unreachable("the plugin should have been killed"),
    (thrown: unknown) => thrown as Error,
  );
  expect([codeOf(error), error.message]).toEqual(["crashed", expect.stringMatching(/memory|heap/i)]);
});
