/** MCP servers that are installed from npm, from an mcp.json and by URL. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  packPackage,
  type Registry,
  startRegistry,
} from "../../packages/supply/test/support/npm-registry.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { callTool, type EndedCall, MCP_PROGRAM } from "../support/mcp/mcp-server.ts";
import { verifies } from "../support/verifies.ts";

let gateway: TestGateway;
let registry: Registry;
let folder: string;
let remote: Server;
/** The requests to the remote server: method and credential. */
const requests: { method: string; authorization: string | undefined }[] = [];

/** A server of revision 2026-07-28 with one tool. */
function handleRemoteRequest(request: IncomingMessage, response: ServerResponse): void {
  let body = "";
  request.on("data", (chunk) => {
    body += chunk;
  });
  request.on("end", () => {
    const { id, method, params } = JSON.parse(body);
    requests.push({ method, authorization: request.headers.authorization });
    const results: Record<string, object> = {
      "server/discover": { supportedVersions: ["2026-07-28"], capabilities: { tools: {} } },
      "tools/list": { tools: [{ name: "echo", inputSchema: { type: "object" } }] },
      "tools/call": { content: [{ type: "text", text: JSON.stringify(params.arguments) }] },
    };
    response.setHeader("content-type", "application/json");
    response.end(
      JSON.stringify({ jsonrpc: "2.0", id, result: { resultType: "complete", ...results[method] } }),
    );
  });
}

beforeAll(async () => {
  remote = createServer(handleRemoteRequest);
  await new Promise<void>((done) => remote.listen(0, "127.0.0.1", done));
  folder = mkdtempSync(join(tmpdir(), "backplane-mcp-install-"));
  registry = await startRegistry();
  const env = { NPM_CONFIG_REGISTRY: registry.url, NPM_CONFIG_CACHE: join(folder, "cache") };
  const home = join(folder, "home");
  mkdirSync(home);
  writeFileSync(join(home, "backplane.toml"), `[egress]\nallow_private = ["${addressOf(remote)}"]\n`);
  gateway = await startTestGateway({ home, env });
});

afterAll(async () => {
  await gateway?.dispose();
  await registry?.close();
  remote?.close();
  rmSync(folder, { recursive: true, force: true });
});

function addressOf(server: Server): string {
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function publish(
  manifest: { name: string; version: string },
  files: Record<string, string | Uint8Array> = {},
): void {
  const archive = packPackage({ "package.json": JSON.stringify(manifest), ...files });
  registry.publish(manifest.name, manifest.version, archive, manifest);
}

function call(export_id: string, input: object = {}): Promise<EndedCall> {
  return callTool(gateway, export_id, input);
}

test("installs npm:NAME with its locked dependencies and without scripts, and takes its arguments from the binding", async () => {
  const manifest = {
    name: "@acme/mcp-demo",
    version: "1.2.3",
    type: "module",
    description: "A demo",
    bin: { demo: "mcp.mjs" },
    scripts: { postinstall: `touch ${join(folder, "script-ran")}` },
    dependencies: { "acme-left": "1.0.0" },
  };
  publish(manifest, { "mcp.mjs": readFileSync(MCP_PROGRAM) });
  publish({ name: "acme-left", version: "1.0.0" });
  const done = await gateway.cli(
    "plugin",
    "install",
    "npm:@acme/mcp-demo",
    "--json",
    "--",
    "plain",
    "--folder",
    "a b",
  );
  expect(done.stderr).not.toContain("error");
  const { package: installed } = JSON.parse(done.stdout) as {
    package: { package_id: string; version: string };
  };
  expect(installed).toMatchObject({
    package_id: "acme/mcp-demo",
    version: "1.2.3",
    origin: "npm",
    manifest: {
      source: "npm:@acme/mcp-demo@1.2.3",
      runtime: { entrypoint: ["node", "./node_modules/@acme/mcp-demo/mcp.mjs"] },
    },
  });
  const args = await call("mcp_demo_args");
  expect(args).toMatchObject({
    status: "succeeded",
    tool_result: { content: [{ text: '["--folder","a b"]' }] },
  });
  expect(existsSync(join(folder, "script-ran"))).toBe(false);
  const slots = ["--no-bind", "--secret", "api_key=any"];
  const conflicting = await gateway.cli("plugin", "install", "npm:@acme/mcp-demo@1.2.3", ...slots);
  expect(conflicting.code).toBe(1);
  expect(conflicting.stderr).toContain(
    "@acme/mcp-demo@1.2.3 is already installed with different secret slots.",
  );
  expect(conflicting.stderr).toContain("backplane binding set NAME --secret SLOT=SECRET");
  const missing = await gateway.cli("plugin", "install", "npm:@acme/nothing-there", "--", "x");
  expect(missing.code).not.toBe(0);
  expect(missing.stderr).toContain("npm failed");
  const named = await gateway.cli("binding", "set", "demo", "--name", "mine");
  expect(named.code, named.stderr).toBe(0);
  publish({ ...manifest, version: "1.2.4" }, { "mcp.mjs": readFileSync(MCP_PROGRAM) });
  const upgraded = await gateway.cli("plugin", "install", "npm:@acme/mcp-demo@1.2.4");
  expect(upgraded.code, upgraded.stderr).toBe(0);
  expect(await call("mcp_mine_args")).toMatchObject({
    status: "succeeded",
    tool_result: { content: [{ text: '["--folder","a b"]' }] },
  });
});

test("installs each server of an mcp.json and never copies a secret from it", async () => {
  const file = join(folder, "mcp.json");
  const mcpServers = {
    demo: { command: "npx", args: ["-y", "@acme/mcp-demo@1.2.3", "plain"], env: { LEVEL: "info" } },
    vault: { url: "https://mcp.invalid/mcp", headers: { Authorization: "Bearer hunter2-hunter2" } },
  };
  writeFileSync(file, JSON.stringify({ mcpServers }));
  const done = await gateway.cli("plugin", "install", file, "--json");
  expect(done.code, done.stderr).toBe(0);
  expect(done.stdout).not.toContain("hunter2");
  expect(JSON.parse(done.stdout)).toMatchObject({
    servers: [
      { package: { package_id: "acme/mcp-demo" } },
      {
        package: { package_id: "mcp/vault" },
        bindings: [{ status: "inactive", unbound_slots: ["authorization"] }],
      },
    ],
  });
  writeFileSync(file, JSON.stringify({ mcpServers: { own: { command: "/opt/own/server" } } }));
  const refused = await gateway.cli("plugin", "install", file);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain("that is not visible in the sandbox");
});

verifies(
  "server.native",
  "builds a native server of an mcp.json with --allow-scripts, and calls it",
  async () => {
    const name = "acme-native-server";
    const manifest = {
      name,
      version: "1.0.0",
      bin: "server.mjs",
      scripts: { install: "node build.mjs" },
      hasInstallScript: true,
    };
    publish(manifest, {
      "mcp.mjs": readFileSync(MCP_PROGRAM),
      "server.mjs": 'import "./built.mjs";\nimport "./mcp.mjs";\n',
      "build.mjs":
        'import { writeFileSync } from "node:fs";\nwriteFileSync("built.mjs", "export const built = true;\\n");\n',
    });
    const file = join(folder, "native.json");
    writeFileSync(
      file,
      JSON.stringify({ mcpServers: { native: { command: "npx", args: [name, "plain"] } } }),
    );

    const plain = await gateway.cli("plugin", "install", file);
    expect(plain.stderr).toContain(`Install scripts of npm:${name} were not run: ${name}@1.0.0`);
    expect(plain.stderr).toContain(`--allow-scripts ${name}`);
    expect(plain.stderr).toContain("built.mjs");

    const built = await gateway.cli("plugin", "install", file, "--allow-scripts", name);
    expect(built.code, built.stderr).toBe(0);
    expect(built.stderr).not.toContain("were not run");
    // The binding changed from the version without scripts.
    expect(built.stderr).toContain(`1.0.0+scripts.${name}`);
    expect(await call("mcp_native_args")).toMatchObject({ status: "succeeded" });
    const audit = await gateway.cli("audit", "list", "--project", "*", "--json");
    expect(audit.stdout).toContain(`npm:${name}@1.0.0; install scripts: ${name}@1.0.0`);
    const unknown = await gateway.cli("plugin", "install", file, "--allow-scripts", "left-pad");
    expect(unknown.code).not.toBe(0);
    expect(unknown.stderr).toContain(`Dependencies with install scripts: ${name}.`);
  },
);

test("skips and names an invalid server of an mcp.json, and installs none with --strict", async () => {
  const file = join(folder, "mixed.json");
  const mcpServers = {
    own: { command: "/opt/own/server" },
    good: { url: "https://mcp.invalid/mcp" },
    gone: { command: "npx", args: ["-y", "@acme/nowhere"] },
  };
  writeFileSync(file, JSON.stringify({ mcpServers }));
  const listPackages = async () =>
    (await gateway.http<{ items: { package_id: string }[] }>("GET", "/v1/plugin-packages")).body.items.map(
      ({ package_id }) => package_id,
    );
  const strict = await gateway.cli("plugin", "install", file, "--strict");
  expect([strict.code, strict.stderr]).toEqual([1, expect.stringContaining("The server own cannot be used")]);
  writeFileSync(file, JSON.stringify({ mcpServers: { good: mcpServers.good, gone: mcpServers.gone } }));
  expect((await gateway.cli("plugin", "install", file, "--strict")).code).toBe(1);
  expect(await listPackages()).not.toContain("mcp/good");

  writeFileSync(file, JSON.stringify({ mcpServers }));
  const done = await gateway.cli("plugin", "install", file, "--json");
  expect(done.code, done.stderr).toBe(8);
  expect(done.stderr).toContain("Skipped server own: own starts /opt/own/server");
  expect(done.stderr).toContain("fix: Put the program into its own package");
  expect(JSON.parse(done.stdout)).toMatchObject({
    servers: [{ package: { package_id: "mcp/good" } }],
    left_out: [{ name: "own" }, { name: "gone" }],
  });
  expect(await listPackages()).toContain("mcp/good");
});

verifies("mcp.client", "calls a remote server with a secret of its binding", async () => {
  await gateway.http("PUT", "/v1/secrets/far", { value: "hunter2-hunter2" });
  const url = `http://${addressOf(remote)}/mcp`;
  const argv = ["plugin", "install", "--mcp", url, "far", "--secret", "authorization=far", "--json"];
  const done = await gateway.cli(...argv);
  expect(done.code, done.stderr).toBe(0);
  const called = await call("mcp_far_echo", { text: "over there" });
  expect(called).toMatchObject({
    status: "succeeded",
    tool_result: { content: [{ text: '{"text":"over there"}' }] },
  });
  expect(requests.at(-1)).toEqual({ method: "tools/call", authorization: "Bearer hunter2-hunter2" });
});

test("does not connect to a private address that the operator did not allow", async () => {
  let request_count = 0;
  const server = createServer((_request, response) => {
    request_count++;
    response.writeHead(500).end();
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const done = await gateway.cli("plugin", "install", "--mcp", `http://${addressOf(server)}/mcp`, "near");
  server.close();
  expect(done.code, done.stderr).toBe(0);
  expect(done.stderr).toContain("does not connect to");
  expect(request_count).toBe(0);
});
