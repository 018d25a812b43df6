/**
 * The published packages on a machine without this repository: packed, installed by the npm on the PATH, and used with the
 * README's commands in an empty folder and home. Plugins run in the sandbox throughout.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  chownSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished } from "vitest";
import type { Registry } from "../../../packages/supply/test/support/npm-registry.ts";
import { type PackedPackage, packAll } from "../../../scripts/pack.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { startInstalledRegistry } from "../../support/registries/installed-registry.ts";
import { verifies } from "../../support/verifies.ts";

const VERDACCIO = "6.10.4";
const INSTALLED_MB = 150;
const FIRST_CALL_MS = 20_000;
/** A user other than root that owns nothing on this machine. */
const ORDINARY_USER = 1000;
/**
 * The same restrictions as in deploy/systemd/backplane.service: the sandbox must work without privileges and without a
 * way to gain any.
 */
const RESTRICTED = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"];

let archives: string;
let packed: PackedPackage[];
let registry: Registry;

beforeAll(async () => {
  archives = mkdtempSync(join(tmpdir(), "backplane-pack-"));
  packed = await packAll({ to: archives });
  await promisify(execFile)("chmod", ["-R", "a+rX", archives]);
  // Only the SDK has a dependency that is not part of its archive.
  registry = await startInstalledRegistry(["zod"]);
  for (const { name, version, file, manifest } of packed)
    registry.publish(name, version, readFileSync(file), manifest);
});
afterAll(async () => {
  await registry.close();
  rmSync(archives, { recursive: true, force: true });
});

interface Newcomer {
  folder: string;
  home: string;
  env: NodeJS.ProcessEnv;
  /** Runs a shell script in the folder and returns its output. */
  run(script: string): Promise<string>;
  spawn(command: string, args: string[]): ChildProcess;
}

/** A user with an empty folder, home and npm cache, and only the system's own programs. */
function createNewcomer(uid: number, npm_registry: string): Newcomer {
  const folder = mkdtempSync(join(tmpdir(), "backplane-newcomer-"));
  const [home, work] = [join(folder, "home"), join(folder, "work")];
  for (const each of [folder, home, work]) {
    mkdirSync(each, { recursive: true });
    if (process.getuid?.() === 0) chownSync(each, uid, uid);
  }
  const path = (process.env.PATH ?? "").split(delimiter).filter((each) => !each.includes("node_modules"));
  const env: NodeJS.ProcessEnv = {
    PATH: [join(folder, "prefix/bin"), ...path].join(delimiter),
    HOME: home,
    TMPDIR: "/tmp",
    LANG: "C.UTF-8",
    BACKPLANE_PORT: "0",
    npm_config_cache: join(folder, "npm-cache"),
    npm_config_prefix: join(folder, "prefix"),
    npm_config_registry: npm_registry,
    npm_config_update_notifier: "false",
    npm_config_yes: "true",
  };
  const asUser = (command: string, args: string[]): [string, string[]] =>
    process.getuid?.() === 0 && uid !== 0
      ? ["setpriv", [`--reuid=${uid}`, `--regid=${uid}`, ...RESTRICTED, command, ...args]]
      : [command, args];
  const newcomer: Newcomer = {
    folder: work,
    home,
    env,
    async run(script) {
      const options = { cwd: work, env, maxBuffer: 32 << 20 };
      const [command, args] = asUser("sh", ["-e", "-c", script]);
      try {
        const { stdout } = await promisify(execFile)(command, args, options);
        return stdout;
      } catch (error) {
        const { stdout, stderr } = error as { stdout: string; stderr: string };
        throw new Error(`this failed:\n${script}\n${stdout}${stderr}`, { cause: error });
      }
    },
    spawn: (command, args) =>
      spawn(...asUser(command, args), { cwd: work, env, stdio: ["pipe", "pipe", "inherit"] }),
  };
  onTestFinished(async () => {
    // If the package is no longer installed, npx would install it only to find nothing to stop.
    if (existsSync(join(home, ".local/share/backplane/gateway.json")))
      await newcomer.run("npx backplane down --force || true");
    rmSync(folder, { recursive: true, force: true });
  });
  return newcomer;
}

const users = process.getuid?.() === 0 ? [0, ORDINARY_USER] : [process.getuid!()];
const archiveOf = (name: string) => packed.find((each) => each.name === name)!.file;
const nodeArchive = () => packed.find((each) => each.name.startsWith("@backplane/node-"))!.file;

/** The first shell block of a section of the README. */
function readmeBlock(section: string): string {
  const text = readFileSync("README.md", "utf8");
  const begin = text.indexOf(`\n## ${section}\n`);
  return /^```sh\n(.*?)^```$/ms.exec(text.slice(begin))![1]!;
}

/** A longer limit on a busy machine, which gives the same work less processor time per second. */
function scaledLimit(ms: number): number {
  return ms * Math.max(1, Math.ceil(loadavg()[0]! / availableParallelism()));
}

function expectFirstCall(output: string): void {
  expect(output).toContain("Installed acme/hello@");
  expect(output).toContain("Hello, Ada!");
  expect(output).toMatch(/\bhello +succeeded\b.*\bisolated\b/);
}

verifies("run.packaged", "packs the same bytes from the same input", async () => {
  const again = mkdtempSync(join(tmpdir(), "backplane-pack-"));
  onTestFinished(() => rmSync(again, { recursive: true, force: true }));
  const digest = (file: string) => createHash("sha256").update(readFileSync(file)).digest("hex");
  const second = await packAll({ to: again });
  expect(second.map(({ file }) => digest(file))).toEqual(packed.map(({ file }) => digest(file)));
});

verifies(
  "run.packaged",
  "packs licenses and exact versions, and no map, path or test of this clone",
  async () => {
    for (const { name, file, manifest } of packed) {
      const folder = mkdtempSync(join(tmpdir(), "backplane-unpacked-"));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      await promisify(execFile)("tar", ["xzf", file, "-C", folder]);
      const files = globSync("package/**", { cwd: folder, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name));
      expect(files).toContain(join(folder, "package/LICENSE"));
      expect(files.filter((each) => /\.(?:map|test\.[jt]s)$/.test(each))).toEqual([]);
      const leaking = files.filter((each) => {
        const bytes = readFileSync(each);
        const refers_to_map = /\.[cm]?js$/.test(each) && bytes.includes("//# sourceMappingURL=");
        return refers_to_map || bytes.includes(resolve("."));
      });
      expect(leaking, name).toEqual([]);
      expect(manifest).toMatchObject({ name, license: expect.any(String), files: expect.any(Array) });
      const { dependencies = {}, optionalDependencies = {} } = manifest as Record<string, object>;
      for (const version of Object.values({ ...dependencies, ...optionalDependencies }))
        expect(version).toMatch(/^\d+\.\d+\.\d+$/);
    }
    expect(packed[0]!.manifest).toMatchObject({
      engines: { node: ">=20.19" },
      bin: { backplane: "bin/backplane.cjs" },
      bundleDependencies: ["@backplane/cli"],
    });
  },
);

for (const uid of users) {
  verifies("run.packaged", `makes the README's first call from the archives, as user ${uid}`, async () => {
    const newcomer = createNewcomer(uid, registry.url);
    const started_at = performance.now();
    await newcomer.run(`npm install ${archiveOf("backplane")} ${nodeArchive()}`);
    await newcomer.run("npx backplane up --detach");
    expectFirstCall(await newcomer.run(readmeBlock("Run a plugin")));
    const ms = performance.now() - started_at;
    console.log(`user ${uid}: from the archive to the first calls in ${Math.round(ms / 100) / 10} s`);
    expect(ms).toBeLessThan(scaledLimit(FIRST_CALL_MS));
    const megabytes = Number.parseInt(await newcomer.run("du -sm node_modules"), 10);
    console.log(`du -sm node_modules: ${megabytes}`);
    expect(megabytes).toBeLessThanOrEqual(INSTALLED_MB);
  });
}

describe("with a registry server", () => {
  let server: RegistryServer;
  beforeAll(async () => {
    server = await startRegistryServer();
    for (const { file } of packed) await server.publish(file);
  });
  afterAll(() => server.stop());

  verifies("run.packaged", "npm publish stores each archive unchanged under its version", async () => {
    for (const { name, version, file } of packed) {
      const published = (await (await fetch(`${server.url}/${name}`)).json()) as PublishedPackage;
      expect(Object.keys(published.versions)).toEqual([version]);
      const { integrity, tarball } = published.versions[version]!.dist;
      expect(integrity).toBe(`sha512-${createHash("sha512").update(readFileSync(file)).digest("base64")}`);
      const served = Buffer.from(await (await fetch(tarball)).arrayBuffer());
      expect(served.equals(readFileSync(file)), name).toBe(true);
    }
  });

  verifies(
    "run.packaged",
    "runs with npx and as a global command from a registry server, and bridges MCP",
    async () => {
      const newcomer = createNewcomer(users.at(-1)!, server.url);
      await newcomer.run("npx backplane up --detach");
      expectFirstCall(await newcomer.run(readmeBlock("Run a plugin")));

      // The command line that docs/mcp.md recommends for an MCP client.
      const bridge = newcomer.spawn("npx", ["backplane", "mcp"]);
      const lines = createInterface({ input: bridge.stdout! });
      const response = once(lines, "line") as Promise<[string]>;
      const hello = {
        protocolVersion: "2025-11-25",
        capabilities: {},
        clientInfo: { name: "test", version: "1" },
      };
      bridge.stdin!.write(
        `${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: hello })}\n`,
      );
      expect(JSON.parse((await response)[0])).toMatchObject({
        id: 1,
        result: { capabilities: { tools: {} } },
      });
      bridge.stdin!.end();
      await once(bridge, "exit");
      await newcomer.run("npx backplane down");

      await newcomer.run("npm install --global backplane");
      const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
      expect((await newcomer.run("backplane --version")).trim()).toBe(version);
      await newcomer.run("backplane up --detach");
      expect(await newcomer.run('backplane invoke hello --input \'{"name":"Lin"}\'')).toContain(
        "Hello, Lin!",
      );
      expect(await newcomer.run("backplane doctor")).not.toMatch(/^\S.* failed /m);
      await newcomer.run("backplane down && npm uninstall --global backplane");
      expect(await newcomer.run("command -v backplane || true")).toBe("");
    },
  );

  verifies("run.packaged", "gives authors a typed SDK that compiles and tests a plugin", async () => {
    const newcomer = createNewcomer(users.at(-1)!, server.url);
    await newcomer.run("npm install @backplane/sdk");
    const plugin = `
      import { definePlugin, tool } from "@backplane/sdk";
      import { runPlugin } from "@backplane/sdk/testing";
      const shout = tool({
        id: "shout",
        input: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
        output: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
        run: async (input) => ({ text: input.text.toUpperCase() }),
      });
      const run = await runPlugin(definePlugin({ package_id: "acme/shout", version: "0.1.0", exports: [shout] }));
      const outcome = await run.invoke("shout", { text: "hi" }, { timeout_ms: 10_000 });
      console.log(JSON.stringify(outcome));
    `;
    writeFileSync(join(newcomer.folder, "plugin.ts"), plugin);
    writeFileSync(join(newcomer.folder, "package.json"), '{"type":"module"}');
    const compilerOptions = { module: "nodenext", strict: true, noEmit: true, target: "es2024" };
    // Every Node project has the types of Node.
    Object.assign(compilerOptions, { types: ["node"], typeRoots: [resolve("node_modules/@types")] });
    writeFileSync(
      join(newcomer.folder, "tsconfig.json"),
      JSON.stringify({ compilerOptions, files: ["plugin.ts"] }),
    );
    await newcomer.run(`${process.execPath} ${resolve("node_modules/typescript/bin/tsc")} -p .`);
    expect(await newcomer.run(`${process.execPath} plugin.ts`)).toContain('"HI"');
    // Authors may use the Node on their PATH.
    await newcomer.run("node -e 'import(\"@backplane/sdk\")'");
  });
});

interface PublishedPackage {
  versions: Record<string, { dist: { integrity: string; tarball: string } }>;
}

interface RegistryServer {
  url: string;
  publish(archive: string): Promise<void>;
  stop(): void;
}

async function startRegistryServer(): Promise<RegistryServer> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-verdaccio-"));
  // Installed on demand from the public registry, because its dependencies would double those of a clone.
  const manifest = {
    private: true,
    dependencies: { verdaccio: VERDACCIO },
    // One of its libraries names a tag instead of a version, which some mirrors of the registry do not have.
    overrides: { "node-fetch": "2.7.0" },
  };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  const npm = (...args: string[]) =>
    promisify(execFile)("npm", args, { cwd: folder, encoding: "utf8", maxBuffer: 32 << 20 });
  await npm("install", "--no-audit", "--no-fund");
  const { stdout: upstream } = await npm("config", "get", "registry");
  writeFileSync(
    join(folder, "config.yaml"),
    `storage: ${folder}/storage
auth: { htpasswd: { file: ${folder}/htpasswd } }
uplinks: { npmjs: { url: "${upstream.trim()}" } }
packages:
  "{backplane,@backplane/*}": { access: $all, publish: $all }
  "**": { access: $all, proxy: npmjs }
max_body_size: 200mb
log: { type: stdout, format: json, level: warn }
`,
  );
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const program = join(folder, "node_modules/verdaccio/bin/verdaccio");
  const server = spawn(
    process.execPath,
    [program, "-c", join(folder, "config.yaml"), "-l", `127.0.0.1:${port}`],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  await eventually(() => isResponding(url), 60_000, "the registry server answers");
  const settings = join(folder, "publisher.npmrc");
  writeFileSync(settings, `//127.0.0.1:${port}/:_authToken=anybody\n`);
  return {
    url,
    async publish(archive) {
      await npm("publish", archive, "--access", "public", "--registry", url, "--userconfig", settings);
    },
    stop() {
      server.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function isResponding(url: string): Promise<boolean> {
  return await fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
