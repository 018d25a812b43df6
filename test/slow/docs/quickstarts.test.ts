/** The quickstarts of each audience, run with an empty home folder. The commands are those of the page. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import type { Registry } from "../../../packages/supply/test/support/npm-registry.ts";
import { openBrowser } from "../../support/browser/browser.ts";
import { cleanEnvironment, runCli } from "../../support/gateway/gateway.ts";
import { type DockerRegistry, startDockerRegistry } from "../../support/registries/docker-registry.ts";
import { startInstalledRegistry } from "../../support/registries/installed-registry.ts";
import { runQuickstart } from "../../support/repository/quickstart.ts";
import { verifies } from "../../support/verifies.ts";

/** The time that each page promises, in seconds. */
const TEN_MINUTES = 600;
/** Ten times as long as one language of the author's page takes on a busy machine, which is about 30 s. */
const ONE_LANGUAGE = 300;
/** More than the page promises, so that a slow run fails at the assertion of the promise and not at this limit. */
const LIMIT_MS = 1_800_000;

let browser: Browser;
let npm: Registry;
let oci: DockerRegistry;
let home: string;
let env: NodeJS.ProcessEnv;
let port: number;

beforeAll(async () => {
  [browser, npm, oci] = await Promise.all([
    openBrowser(),
    startInstalledRegistry([
      "@modelcontextprotocol/server-filesystem",
      "@modelcontextprotocol/server-sequential-thinking",
    ]),
    startDockerRegistry({}),
  ]);
});
afterAll(async () => {
  oci?.stop();
  await npm?.close();
  await browser?.close();
});
beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), "backplane-newcomer-"));
  port = await freePort();
  env = cleanEnvironment({
    BACKPLANE_PORT: String(port),
    HOME: home,
    NPM_CONFIG_REGISTRY: npm.url,
    NPM_CONFIG_CACHE: join(home, ".npm"),
  });
  for (const name of ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "VAI_SIGNING_KEY"])
    delete env[name];
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const runPage = async (name: string, actions: Record<string, () => Promise<void>> = {}) => {
  const replace = { "127.0.0.1:7420": `127.0.0.1:${port}`, "127.0.0.1:5000": oci.host };
  const { seconds } = await runQuickstart({
    file: `docs/quickstarts/${name}.md`,
    home,
    env,
    replace,
    actions,
  });
  const total = [...seconds.values()].reduce((sum, each) => sum + each, 0);
  expect(total).toBeLessThan(TEN_MINUTES);
  return seconds;
};

verifies(
  "docs.audience",
  "a person who runs an assistant starts, installs, connects, approves and revokes with the quickstart",
  async () => {
    await runPage("assistant", {
      "list the tools with .mcp.json": listToolsAsClient,
      "always allow the tool in the console": alwaysAllowInConsole,
    });
  },
  LIMIT_MS,
);

verifies(
  "docs.audience",
  "an operator sets policy, approves, hands out keys, backs up, upgrades and monitors with the quickstart",
  async () => {
    await runPage("operator");
  },
  LIMIT_MS,
);

verifies(
  ["docs.audience", "author.init"],
  "an author takes a plugin in TypeScript and in Python from init to a call of the published package",
  async () => {
    const seconds = await runPage("author");
    const python = seconds.get("The same in Python")!;
    const typescript = [...seconds].reduce(
      (sum, [heading, each]) => (/^\d/.test(heading) ? sum + each : sum),
      0,
    );
    expect(typescript).toBeLessThan(ONE_LANGUAGE);
    expect(python).toBeLessThan(ONE_LANGUAGE);
  },
  LIMIT_MS,
);

/** An MCP client that reads the file as Claude Code does. */
async function listToolsAsClient(): Promise<void> {
  const { mcpServers } = JSON.parse(readFileSync(join(home, "my-project/.mcp.json"), "utf8")) as {
    mcpServers: { backplane: { url: string; headers: Record<string, string> } };
  };
  const { url, headers } = mcpServers.backplane;
  const client = new Client({ name: "assistant", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  const { tools } = await client.listTools();
  await client.close();
  const names = tools.map(({ name }) => name);
  expect(names).toContain("mcp_notes_read_text_file");
  expect(names).toContain("mcp_thinking_sequentialthinking");
}

async function alwaysAllowInConsole(): Promise<void> {
  const opened = await runCli(["open"], env);
  const link = /http:\S+\/login\?code=\S+/.exec(opened.stdout)![0];
  const context = await browser.newContext();
  context.setDefaultTimeout(60_000);
  try {
    const page = await context.newPage();
    await page.goto(link);
    await page.goto(`http://127.0.0.1:${port}/console/approvals`);
    await page.getByRole("button", { name: "Always allow" }).click();
    await page.getByRole("menuitem", { name: "Any arguments of mcp_notes_read_text_file" }).click();
    await page.getByText("No call awaits approval.").waitFor();
  } finally {
    await context.close();
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const port = (server.address() as AddressInfo).port;
  await new Promise((done) => server.close(done));
  return port;
}
