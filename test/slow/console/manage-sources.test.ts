/** Installations from registries, images, remote servers, archives and examples in the console, all on loopback. */
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { MARKETPLACE_FORMAT } from "@backplane/contract/schema";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  packPackage,
  type Registry,
  startRegistry,
} from "../../../packages/supply/test/support/npm-registry.ts";
import { type PythonIndex, startPythonIndex } from "../../../packages/supply/test/support/python-index.ts";
import { openBrowser, type Visit, visit } from "../../support/browser/browser.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { callTool, MCP_PROGRAM } from "../../support/mcp/mcp-server.ts";
import {
  type AuthorizationServer,
  type ProtectedServer,
  startAuthorizationServer,
  startProtectedServer,
} from "../../support/mcp/oauth-server.ts";
import { pythonServerWheels } from "../../support/mcp/python-mcp-server.ts";
import { writeDeskPlugin } from "../../support/plugins/desk-plugin.ts";
import { type DockerRegistry, startDockerRegistry } from "../../support/registries/docker-registry.ts";
import { writeImageLayout } from "../../support/registries/image-layout.ts";
import { verifies } from "../../support/verifies.ts";

let folder: string;
let npm: Registry;
let index: PythonIndex;
let registry: DockerRegistry;
let authorization: AuthorizationServer;
let remote: ProtectedServer;
let gateway: TestGateway;
let browser: Browser;
const visits: Visit[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-console-sources-"));
  chmodSync(folder, 0o755);
  authorization = await startAuthorizationServer();
  [npm, index, registry, remote, browser] = await Promise.all([
    startRegistry(),
    startPythonIndex(),
    startDockerRegistry({ login: false }),
    startProtectedServer(authorization),
    openBrowser(),
  ]);
  publishNpmServer();
  writeCatalog([]);
  for (const { project, file, bytes } of pythonServerWheels()) index.publish(project, file, bytes);
  await pushImage();
  const home = join(folder, "home");
  mkdirSync(home, { mode: 0o700 });
  const allowed = [registry.host, authorization.address, remote.address]
    .map((host) => `"${host}"`)
    .join(", ");
  writeFileSync(
    join(home, "backplane.toml"),
    `[egress]\nallow_private = [${allowed}]\n[pypi]\nindex_url = "${index.url}"\n[marketplace]\ncatalogs = ["${catalogFile()}"]\n`,
  );
  const env = { NPM_CONFIG_REGISTRY: npm.url, NPM_CONFIG_CACHE: join(folder, "cache") };
  gateway = await startTestGateway({ home, env });
}, 180_000);
afterEach(async () => {
  for (const each of visits.splice(0)) await each.close();
});
afterAll(async () => {
  await browser?.close();
  await gateway?.dispose();
  registry?.stop();
  await Promise.all([npm?.close(), index?.close(), remote?.close(), authorization?.close()]);
  rmSync(folder, { recursive: true, force: true });
});

/** A server whose dependency is complete only after its install script has run. */
function publishNpmServer(): void {
  const native = { name: "acme-native", version: "1.0.0", scripts: { install: "node build.cjs" } };
  npm.publish(
    native.name,
    native.version,
    packPackage({
      "package.json": JSON.stringify(native),
      "build.cjs": 'require("node:fs").writeFileSync("built.txt", "Built by its script");',
    }),
    { ...native, hasInstallScript: true },
  );
  const server = {
    name: "acme-notes",
    version: "1.0.0",
    type: "module",
    bin: { "acme-notes": "server.mjs" },
    dependencies: { "acme-native": "1.0.0" },
  };
  const start = `#!/usr/bin/env node
import { readFileSync } from "node:fs";
process.env.DESCRIBES = readFileSync(new URL("../acme-native/built.txt", import.meta.url), "utf8");
await import("./mcp.mjs");
`;
  npm.publish(
    server.name,
    server.version,
    packPackage({
      "package.json": JSON.stringify(server),
      "server.mjs": start,
      "mcp.mjs": readFileSync(MCP_PROGRAM),
    }),
    server,
  );
}

async function pushImage(): Promise<void> {
  const layout = await writeImageLayout(folder);
  const target = `docker://${registry.host}/acme/look:1.0`;
  await registry.skopeo("copy", "--insecure-policy", "--dest-tls-verify=false", `oci:${layout}:1.0`, target);
}

/** Pushes an example that is signed with a key that the gateway does not trust yet. */
async function pushPackage(): Promise<string> {
  const dir = join(folder, "hello");
  cpSync(resolve("examples/hello-tool"), dir, { recursive: true });
  const key = join(folder, "acme.key");
  const target = `oci://${registry.host}/acme/hello:0.1.0`;
  await runCli("key", "generate", "-o", key);
  await runCli("plugin", "sign", dir, "--key", key);
  await runCli("plugin", "push", dir, target);
  return target;
}

const catalogFile = () => join(folder, "catalog.json");

function writeCatalog(entries: readonly object[]): void {
  writeFileSync(catalogFile(), JSON.stringify({ format: MARKETPLACE_FORMAT, name: "Acme", entries }));
}

/** Publishes an example as this version, and makes its card the only one of the catalog. */
async function publishCard(version: string, key: string, permissions: object): Promise<void> {
  const dir = join(folder, `weave-${version}`);
  cpSync(resolve("examples/thread-weave"), dir, { recursive: true });
  const manifest = join(dir, "vai-plugin.toml");
  writeFileSync(manifest, readFileSync(manifest, "utf8").replace('"0.1.0"', `"${version}"`));
  await runCli("plugin", "sign", dir, "--key", key);
  const repository = `oci://${registry.host}/acme/weave`;
  const { manifest_digest } = await runCli("plugin", "push", dir, `${repository}:${version}`);
  const signature = JSON.parse(readFileSync(join(dir, "marketplace.signature.json"), "utf8")) as {
    key_id: string;
    dependency_lock: unknown;
  };
  const entry = {
    id: "weave",
    name: "Weave",
    description: "Compacts conversations by topic.",
    status: "available",
    package: {
      package_id: "backplane/thread-weave",
      version,
      exports: [{ id: "thread_weave", kind: "compactor" }],
    },
    publisher: { name: "Acme" },
    review: { status: "reviewed" },
    source: {},
    oci: `${repository}@${manifest_digest}`,
    signature: { key_id: signature.key_id, public_key: readFileSync(`${key}.pub`, "utf8") },
    dependency_lock: signature.dependency_lock,
    install_policy: {},
    permissions,
    tokens: 0,
  };
  writeCatalog([entry]);
}

async function runCli(...args: string[]): Promise<Record<string, string>> {
  const { code, stdout, stderr } = await gateway.cli(...args, "--json");
  if (code !== 0) throw new Error(`${args.join(" ")}: ${stdout} ${stderr}`);
  return JSON.parse(stdout) as Record<string, string>;
}

async function open(path: string): Promise<Visit> {
  const visited = await visit(browser, gateway);
  visits.push(visited);
  await visited.page.goto(gateway.url + path);
  return visited;
}

/** Chooses the source and reviews it. */
async function review(page: Page, kind: string, field: string, source: string): Promise<void> {
  await page.getByRole("radio", { name: kind, exact: true }).click();
  await page.getByRole("textbox", { name: field, exact: true }).fill(source);
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("region", { name: /What it is and what it will be able to do/ }).waitFor();
}

async function install(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Install", exact: true }).click();
  await page.getByRole("heading", { name: "Installed", level: 1 }).waitFor({ timeout: 120_000 });
}

async function invokeForText(export_id: string, input: object = {}): Promise<string> {
  const { tool_result, error } = await callTool(gateway, export_id, input);
  expect(error).toBeNull();
  return tool_result!.content[0]!.text;
}

verifies(
  "console.manage",
  "installs a server from npm, and runs the install script of a dependency that was allowed",
  async () => {
    const { page, problems } = await open("/console/plugins/install");
    await review(page, "npm", "npm", "acme-notes@1.0.0");
    await page.getByText("More options").click();
    await page.getByLabel("npm packages whose install scripts run").first().fill("acme-native");
    await page.keyboard.press("Enter");
    await page.getByText("--allow-scripts acme-native").waitFor();
    await install(page);
    await page.getByRole("link", { name: "All tools" }).click();
    await page.getByRole("tab", { name: "Tools" }).click();
    await page.getByText("Built by its script").first().waitFor();
    expect(await invokeForText("mcp_acme-notes_echo", { text: "Ada" })).toContain("Ada");
    expect(problems).toEqual([]);
  },
  180_000,
);

verifies(
  "console.manage",
  "installs a server from the Python index with its arguments and a slot, and binds a secret to the slot",
  async () => {
    const { page, problems } = await open("/console/plugins/install");
    await page.getByRole("radio", { name: "PyPI" }).click();
    await page.getByRole("textbox", { name: "Arguments of the server" }).fill("--level\nhigh");
    await page.getByLabel("Secret slots").first().fill("api_key");
    await page.keyboard.press("Enter");
    await review(page, "PyPI", "PyPI", "acme-mcp-py==1.4");
    await install(page);
    await page.getByText("is inactive until api_key has a secret").waitFor();
    await page.getByRole("link", { name: "Bind the secret" }).click();
    await page.getByRole("button", { name: "New secret for api_key" }).click();
    await page.getByLabel("Value", { exact: true }).fill("a-secret-value");
    await page.getByRole("button", { name: "Store" }).click();
    await page.getByRole("button", { name: "Save secrets" }).click();
    await page.getByText("Secrets saved. The change applies to the next call.").waitFor();
    const report = JSON.parse(await invokeForText("mcp_acme-mcp-py_look")) as {
      arguments: string[];
      word: string;
    };
    expect(report).toMatchObject({ word: "dependency", arguments: ["--level", "high"] });
    expect(problems).toEqual([]);
  },
  180_000,
);

verifies(
  "console.manage",
  "installs a server from a container image and tries one of its tools",
  async () => {
    const { page, problems } = await open("/console/plugins/install");
    await review(page, "Container image", "Container image", `${registry.host}/acme/look:1.0`);
    await install(page);
    await page.getByRole("link", { name: "All tools" }).click();
    await page.getByRole("tab", { name: "Test call" }).click();
    await page.getByRole("button", { name: "Call", exact: true }).click();
    const result = page.getByRole("region", { name: "Result", exact: true });
    await result.getByText("Succeeded").waitFor();
    await result.getByText(/from the image/).waitFor();
    expect(problems).toEqual([]);
  },
  180_000,
);

verifies(
  "console.manage",
  "refuses a package of an unknown publisher from a registry, and installs it after its key was trusted",
  async () => {
    const target = await pushPackage();
    const { page, problems } = await open("/console/plugins/install");
    await review(page, "OCI registry", "OCI registry", target);
    await page.getByRole("button", { name: "Install", exact: true }).click();
    await page.getByText("signature.untrusted", { exact: false }).first().waitFor();

    await page.goto(`${gateway.url}/console/settings?view=signing`);
    await page.getByRole("button", { name: "Trust a key" }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Publisher").fill("Acme");
    await dialog.getByLabel("Public key").fill(readFileSync(join(folder, "acme.key.pub"), "utf8"));
    await dialog.getByRole("button", { name: "Trust", exact: true }).click();
    await page.getByText("Acme is trusted.").waitFor();

    await page.goto(`${gateway.url}/console/plugins/install?source=${encodeURIComponent(target)}`);
    await page.getByRole("button", { name: "Review" }).click();
    await install(page);
    expect(await invokeForText("hello", { name: "Ada" })).toContain("Ada");
    // The refusal is a response with an error status, which the browser reports.
    expect(problems.filter((problem) => !problem.includes("Failed to load resource"))).toEqual([]);
  },
  180_000,
);

verifies(
  "console.manage",
  "connects a remote server, signs in to it in another tab, calls its tool and signs out",
  async () => {
    const visited = await open("/console/plugins/install");
    const { page } = visited;
    await page.getByRole("radio", { name: "Remote MCP server" }).click();
    await page.getByRole("textbox", { name: "Name", exact: true }).fill("notes");
    await review(page, "Remote MCP server", "Remote MCP server", remote.url);
    await install(page);
    await page.getByRole("link", { name: "All tools" }).click();
    await page.getByText("Sign-in needed").waitFor();
    await page.getByRole("button", { name: "Sign in" }).click();
    const [tab] = await Promise.all([
      page.context().waitForEvent("page"),
      page.getByRole("link", { name: "Open the sign-in page" }).click(),
    ]);
    await tab
      .getByText(/signed in/i)
      .first()
      .waitFor();
    await tab.close();
    await page.getByText("Signed in", { exact: true }).waitFor();
    expect(await invokeForText("mcp_notes_whoami")).toBe("client-1 Bearer [redacted]");
    await page.getByRole("button", { name: "Sign out of the server" }).click();
    await page.getByText("Signed out.").waitFor();
    expect((await callTool(gateway, "mcp_notes_whoami", {})).error?.code).toBe("sign_in.needed");
  },
  180_000,
);

verifies(
  "console.manage",
  "uploads an archive from this computer, and installs an example that comes with Backplane",
  async () => {
    const archive = join(folder, "text-tools.tgz");
    execFileSync("tar", ["czf", archive, "-C", resolve("examples/text-tools"), "."]);
    const { page, problems } = await open("/console/plugins/install");
    await page.getByRole("radio", { name: "Archive" }).click();
    const chooser = page.waitForEvent("filechooser");
    await page.getByRole("button", { name: "Archive" }).click();
    await (await chooser).setFiles(archive);
    await page.getByRole("button", { name: "Review" }).click();
    await install(page);

    await page.getByRole("button", { name: "Install another" }).click();
    await page.getByRole("radio", { name: "Example" }).click();
    await page.getByRole("combobox", { name: "Example" }).click();
    await page.getByRole("option", { name: "notifier" }).click();
    await page.getByRole("button", { name: "Review" }).click();
    await install(page);
    const { body } = await gateway.http<{ items: { package_id: string }[] }>("GET", "/v1/plugin-packages");
    const ids = body.items.map(({ package_id }) => package_id).join(" ");
    expect(ids).toContain("text-tools");
    expect(ids).toContain("acme/notifier");
    expect(problems).toEqual([]);
  },
  180_000,
);

test("explains a source that does not exist instead of showing an empty review", async () => {
  const { page } = await open("/console/plugins/install?source=npm:acme-missing");
  await page.getByRole("button", { name: "Review" }).click();
  await page
    .getByRole("alert")
    .getByText(/acme-missing/)
    .waitFor();
  expect(await page.getByRole("button", { name: "Install", exact: true }).count()).toBe(0);
}, 120_000);

verifies(
  ["console.manage", "console.quality"],
  "refuses a package whose bytes were changed, with the expected and the actual digest, by command and in the console",
  async () => {
    const home = join(folder, "strict");
    mkdirSync(home, { mode: 0o700 });
    writeFileSync(join(home, "backplane.toml"), '[packages]\nrequire_signature = ["upload"]\n');
    const strict = await startTestGateway({ home });
    const visited = await visit(browser, strict);
    const { page } = visited;
    try {
      const dir = writeDeskPlugin("acme/broken", "1.0.0");
      const key = join(folder, "strict.key");
      for (const args of [
        ["key", "generate", "-o", key],
        ["key", "trust", `${key}.pub`, "--name", "Acme"],
        ["plugin", "sign", dir, "--key", key],
      ]) {
        const completed = await strict.cli(...args);
        expect(completed.code, completed.stderr).toBe(0);
      }
      const file = join(dir, "bin/plugin.mjs");
      writeFileSync(file, readFileSync(file, "utf8").replace("succeeded", "succeedeD"));
      const refused = await strict.cli("plugin", "install", dir);
      expect(refused.code, refused.stderr).toBe(6);
      const digests = [...new Set(refused.stderr.match(/[0-9a-f]{64}/g))];
      expect(digests).toHaveLength(2);

      const archive = join(folder, "broken.tgz");
      execFileSync("tar", ["czf", archive, "--exclude=marketplace.signature.json", "-C", dir, "."]);
      await page.goto(`${strict.url}/console/plugins/install`);
      await page.getByRole("radio", { name: "Archive" }).click();
      const choose = async (name: string, chosen: string) => {
        const chooser = page.waitForEvent("filechooser");
        await page.getByRole("button", { name }).click();
        await (await chooser).setFiles(chosen);
      };
      await choose("Archive", archive);
      await page.getByRole("button", { name: "Review" }).click();
      await page.getByText("More options").click();
      await choose("Signature", join(dir, "marketplace.signature.json"));
      await page.getByRole("button", { name: "Install", exact: true }).click();
      const alert = page.getByRole("alert");
      for (const digest of digests) await alert.getByText(new RegExp(digest)).first().waitFor();
      await alert.getByText("signature.mismatch").waitFor();
    } finally {
      await visited.close();
      await strict.dispose();
    }
  },
  120_000,
);

verifies(
  ["console.manage", "api.marketplace"],
  "shows how a card differs from the version in use, and opens the upgrade after the installation",
  async () => {
    const key = join(folder, "weave.key");
    await runCli("key", "generate", "-o", key);
    await runCli("key", "trust", `${key}.pub`, "--name", "Weavers");
    await publishCard("0.1.0", key, { filesystem: "scratch" });
    const first = await open("/console/marketplace/weave");
    await first.page.getByText("Make the exports callable now").waitFor();
    await first.page.getByRole("button", { name: "Install", exact: true }).click();
    await first.page.getByText("Weave is installed.").waitFor({ timeout: 60_000 });

    await publishCard("0.2.0", key, {
      filesystem: "scratch",
      network: "egress",
      allowed_domains: ["a.test"],
    });
    const { page, problems } = await open("/console/marketplace");
    const entry = page.getByRole("article", { name: "Weave", exact: true });
    await entry.getByText("0.1.0 in use").waitFor();
    await entry.getByRole("link", { name: "Review and install" }).click();
    const changes = page.getByRole("region", { name: "What changes from 0.1.0 to 0.2.0" });
    await changes.getByText("It will be able to use the network: a.test.").waitFor();
    await page.getByText("plugin upgrade backplane/thread-weave --from marketplace:weave").waitFor();
    await page.getByRole("button", { name: "Install and review the upgrade" }).click();
    await page
      .getByRole("heading", { name: "Upgrade Thread Weave to 0.2.0", level: 1 })
      .waitFor({ timeout: 60_000 });
    const { body } = await gateway.http<{ items: { package_version: string }[] }>(
      "GET",
      "/v1/plugin-bindings?package_id=backplane/thread-weave",
    );
    expect(body.items.map(({ package_version }) => package_version)).toEqual(["0.1.0"]);
    expect(problems).toEqual([]);
  },
  180_000,
);
