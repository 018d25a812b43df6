/** Runs published MCP commands against a gateway that has a bound MCP server. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type McpFixture, startMcpFixture } from "../../support/mcp/mcp-fixture.ts";
import { peerFile } from "../../support/registries/peers.ts";

let fixture: McpFixture;
let home: string;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "backplane-peers-"));
  fixture = await startMcpFixture();
});
afterAll(async () => {
  await fixture.dispose();
  rmSync(home, { recursive: true, force: true });
});

test("the Inspector's command line lists and calls tools and reads a resource", async () => {
  const inspect = (...args: string[]) =>
    run("mcp-inspector", [
      "--cli",
      `${fixture.gateway.url}/mcp/servers/conformance`,
      "--transport",
      "http",
      "--header",
      `Authorization: Bearer ${fixture.gateway.token}`,
      ...args,
    ]);
  expect(await inspect("--method", "tools/list")).toContain('"test_simple_text"');
  const called = await inspect("--method", "tools/call", "--tool-name", "test_simple_text");
  expect(called).toContain("This is a simple text response for testing.");
  const read = await inspect("--method", "resources/read", "--uri", "test://static-text");
  expect(read).toContain("This is the content of the static text resource.");
});

test("mcporter lists and calls tools", async () => {
  const server = ["--http-url", `${fixture.gateway.url}/mcp`, "--allow-http", "--name", "gateway"];
  const header = ["--header", `Authorization=Bearer ${fixture.gateway.token}`];
  const listed = await run("mcporter", ["list", ...server, ...header, "--json"]);
  expect(listed).toContain("mcp_conformance_test_simple_text");
  const called = await run("mcporter", [
    "call",
    ...server,
    ...header,
    "--tool",
    "mcp_conformance_test_simple_text",
    "--output",
    "json",
  ]);
  expect(called).toContain("This is a simple text response for testing.");
});

/** Runs a published command with its own home. */
function run(name: string, args: string[]): Promise<string> {
  const file = peerFile(`.bin/${name}`);
  const env = { ...process.env, HOME: home, MCP_CATALOG_PATH: join(home, "mcp.json") };
  return new Promise((done, fail) => {
    execFile(process.execPath, [file, ...args], { cwd: home, env }, (error, stdout, stderr) =>
      error === null ? done(stdout) : fail(new Error(`${name} failed: ${stdout}${stderr}`)),
    );
  });
}
