/** Published MCP servers, unchanged from npm, installed in a real gateway and called in its sandbox. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Registry } from "../../../packages/supply/test/support/npm-registry.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { startInstalledRegistry } from "../../support/registries/installed-registry.ts";

const NAMES = ["everything", "filesystem", "memory", "sequential-thinking"];
const npmName = (name: string) => `@modelcontextprotocol/server-${name}`;

let registry: Registry;
let gateway: TestGateway;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-mcp-e2e-"));
  mkdirSync(join(folder, "granted"));
  writeFileSync(join(folder, "granted", "note.txt"), "inside");
  writeFileSync(join(folder, "outside.txt"), "content of another folder");
  symlinkSync("../outside.txt", join(folder, "granted", "way-out"));
  chmodSync(folder, 0o755);
  registry = await startInstalledRegistry(NAMES.map(npmName));
  const env = { NPM_CONFIG_REGISTRY: registry.url, NPM_CONFIG_CACHE: join(folder, "cache") };
  gateway = await startTestGateway({ env });
  const mounts = [{ source: join(folder, "granted"), target: "/data", writable: false }];
  await install("everything", {});
  await install("filesystem", { config: { args: ["/data"] }, policy: { mounts } });
  await install("memory", { config: { env: { MEMORY_FILE_PATH: "/tmp/memory.jsonl" } } });
}, 600_000);

afterAll(async () => {
  await gateway?.dispose();
  await registry?.close();
  rmSync(folder, { recursive: true, force: true });
});

interface EndedCall {
  status: string;
  class: string;
  grant: { network: string; mounts: unknown[] };
  error: { code: string; message: string } | null;
  tool_result: {
    is_error: boolean;
    content: { type: string; text?: string; data?: string }[];
    structured_output?: unknown;
  };
  id: string;
}

async function install(name: string, binding: object): Promise<void> {
  const installed = await gateway.http<{ package_id: string; version: string }>(
    "POST",
    "/v1/plugin-packages",
    {
      source: { npm: npmName(name) },
    },
  );
  expect(installed).toMatchObject({
    status: 201,
    body: { package_id: `modelcontextprotocol/server-${name}` },
  });
  const { package_id, version: package_version } = installed.body;
  const bound = await gateway.http("POST", "/v1/plugin-bindings", {
    package_id,
    package_version,
    export_id: "*",
    ...binding,
  });
  expect(bound).toMatchObject({ status: 201, body: { status: "active" } });
}

async function call(server: string, tool: string, input: object): Promise<EndedCall> {
  const body = { export_id: `mcp_server-${server}_${tool}`, input };
  return (await gateway.http<EndedCall>("POST", "/v1/invocations?wait=30", body)).body;
}

function text({ tool_result }: EndedCall): string {
  return tool_result.content.map((block) => block.text ?? "").join("\n");
}

test("server-everything returns text, images, structured content and progress", async () => {
  const echo = await call("everything", "echo", { message: "hello" });
  expect(echo).toMatchObject({ status: "succeeded", class: "isolated", grant: { allowed_domains: [] } });
  expect(text(echo)).toBe("Echo: hello");
  const image = await call("everything", "get-tiny-image", {});
  expect(
    image.tool_result.content.some(({ type, data }) => type === "image" && (data ?? "").length > 100),
  ).toBe(true);
  const typed = await call("everything", "get-structured-content", { location: "New York" });
  expect(typed.tool_result.structured_output).toMatchObject({ conditions: expect.any(String) });
  const long = await call("everything", "trigger-long-running-operation", { duration: 0.3, steps: 3 });
  const events = await fetch(`${gateway.url}/v1/invocations/${long.id}/events`, {
    headers: { authorization: `Bearer ${gateway.token}` },
  });
  expect((await events.text()).match(/"type":"progress"/g)?.length).toBeGreaterThanOrEqual(3);
  const wrong = await gateway.http("POST", "/v1/invocations?wait=30", {
    export_id: "mcp_server-everything_get-sum",
    input: { a: "one" },
  });
  expect(wrong.body).toMatchObject({ error: { code: "input.invalid" } });
});

test("server-filesystem sees only the granted folder, whatever path is requested", async () => {
  expect(text(await call("filesystem", "read_text_file", { path: "/data/note.txt" }))).toBe("inside");
  const listed = text(await call("filesystem", "list_directory", { path: "/data" }));
  expect(listed).toContain("note.txt");
  for (const path of [
    "/etc/hostname",
    join(folder, "outside.txt"),
    "/data/../outside.txt",
    "/data/way-out",
  ]) {
    const refused = await call("filesystem", "read_text_file", { path });
    expect(refused.tool_result.is_error, path).toBe(true);
    expect(text(refused)).not.toContain("content of another folder");
  }
  const written = await call("filesystem", "write_file", { path: "/data/new.txt", content: "x" });
  expect(text(written)).toContain("EROFS");
});

test("server-memory keeps its data across calls while its process lives", async () => {
  const entities = [{ name: "ann", entityType: "person", observations: ["likes tea"] }];
  expect(await call("memory", "create_entities", { entities })).toMatchObject({
    tool_result: { is_error: false },
  });
  expect(text(await call("memory", "search_nodes", { query: "tea" }))).toContain("ann");
});

test("backplane plugin install npm:… installs and binds the server and lists its tools", async () => {
  const done = await gateway.cli("plugin", "install", `npm:${npmName("sequential-thinking")}`, "--json");
  expect(done).toMatchObject({ code: 0 });
  const { bindings, package: installed } = JSON.parse(done.stdout) as {
    bindings: { binding_id: string }[];
    package: { manifest: { source: string; runtime: { entrypoint: string[] } }; origin: string };
  };
  expect(installed).toMatchObject({ origin: "npm", manifest: { runtime: { protocol: "mcp.stdio" } } });
  expect(installed.manifest.runtime.entrypoint[1]).toBe(
    "./node_modules/@modelcontextprotocol/server-sequential-thinking/dist/index.js",
  );
  const input = { thought: "a", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 };
  const thought = await call("sequential-thinking", "sequentialthinking", input);
  expect(thought.tool_result.structured_output).toMatchObject({ thoughtNumber: 1 });
  const tools = await gateway.cli("binding", "tools", bindings[0]!.binding_id);
  expect(tools.stdout).toContain("mcp_server-sequential-thinking_sequentialthinking");
  // Installing the same tree again results in the same package.
  const again = await gateway.http("POST", "/v1/plugin-packages", {
    source: { npm: npmName("sequential-thinking") },
  });
  expect(again.status).toBe(200);
});
