/** Kernel plugins are searched for files that look like a credential, whatever their source. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createPluginSources, type PluginSources } from "../../src/index.ts";
import { createNpm, type Npm } from "../../src/npm/npm-command.ts";
import { packPackage, type Registry, startRegistry } from "../support/npm-registry.ts";
import { writeFolder } from "../support/plugin-folder.ts";

let registry: Registry;
let npm_home: string;
let npm: Npm;
let root: string;
let plugins: string;
let sources: PluginSources;

beforeAll(async () => {
  registry = await startRegistry();
  npm_home = mkdtempSync(join(tmpdir(), "backplane-credentials-npm-"));
  const npm_config_cache = join(npm_home, "cache");
  npm = createNpm({
    env: { PATH: process.env.PATH, HOME: npm_home, npm_config_registry: registry.url, npm_config_cache },
  });
});
afterAll(async () => {
  await registry.close();
  rmSync(npm_home, { recursive: true, force: true });
});
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "backplane-credentials-"));
  plugins = join(root, "plugins");
  sources = createPluginSources({ home_plugins_dir: plugins, bundled_roots: [], npm });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** The files of a package with a plugin of the same name. */
function pluginFiles(name: string, files: Record<string, string>, dependencies = {}) {
  const manifest = {
    name,
    version: "1.0.0",
    main: "index.js",
    dependencies,
    "yaya.plugins.v1": { [name]: { category: "tool" } },
  };
  return { "package.json": JSON.stringify(manifest), "index.js": "", ...files };
}

function publish(files: Record<string, string>): void {
  const manifest = JSON.parse(files["package.json"]!) as { name: string };
  const buffers = Object.entries(files).map(([path, text]) => [path, Buffer.from(text)]);
  registry.publish(manifest.name, "1.0.0", packPackage(Object.fromEntries(buffers)), manifest);
}

async function listInstalled(): Promise<string[]> {
  return (await sources.discover()).entries.map(({ name, origin }) => `${origin} ${name}`).sort();
}

verifies(
  "pkg.no-secrets",
  "refuses a kernel plugin with a credential from the registry, an archive and a folder, and installs nothing",
  async () => {
    const files = pluginFiles("leaky", {
      ".env": "TOKEN=x",
      "settings.js": `const key = "ghp_${"a1B2".repeat(9)}";`,
    });
    publish(files);
    const folder = writeFolder(join(root, "folder"), files);
    const archive = join(root, "packed.tgz");
    const buffers = Object.entries(files).map(([path, text]) => [path, Buffer.from(text)]);
    writeFileSync(archive, packPackage(Object.fromEntries(buffers)));
    for (const [source, fix] of [
      ["leaky", "Ask the author to remove the file from the npm package"],
      [archive, "Ask the author to remove the file from the archive"],
      [folder, "or link the folder with --editable"],
    ] as const) {
      await expect(sources.install(source, { editable: false }), source).rejects.toMatchObject({
        code: "package.credential_file",
        message:
          ".env cannot be installed: environment files contain secrets (and 1 more, see details.files).",
        details: {
          files: [
            { file: ".env", why: "environment files contain secrets" },
            { file: "settings.js", why: "it contains a GitHub token" },
          ],
        },
        fix: expect.stringContaining(fix),
      });
    }
    expect(await listInstalled()).toEqual([]);
    expect(readdirSync(join(plugins, "local"))).toEqual([]);
    // Nothing is copied, so the files of a developer stay where they are.
    await sources.install(folder, { editable: true });
    expect(await listInstalled()).toEqual(["local leaky"]);
  },
  60_000,
);

test("installs a kernel plugin whose dependencies contain keys for their tests", async () => {
  publish({
    "package.json": JSON.stringify({ name: "keys-lib", version: "1.0.0" }),
    "test.pem": `-----BEGIN PRIVATE KEY-----\n${"A1b2".repeat(20)}`,
  });
  publish(pluginFiles("uses-keys", {}, { "keys-lib": "1.0.0" }));
  await sources.install("uses-keys", { editable: false });
  expect(existsSync(join(plugins, "node_modules/keys-lib/test.pem"))).toBe(true);
  const bundled = pluginFiles("bundles-keys", { "node_modules/keys-lib/.env": "TOKEN=x" });
  await sources.install(writeFolder(join(root, "folder"), bundled), { editable: false });
  expect(await listInstalled()).toEqual(["installed uses-keys", "local bundles-keys"]);
}, 60_000);
