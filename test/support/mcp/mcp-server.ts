/** Installs an MCP server on stdio from a folder, binds it as a whole, and calls its tools. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect } from "vitest";
import type { TestGateway } from "../gateway/gateway.ts";

/** The server of the runner's tests; its argument selects its behavior. */
export const MCP_PROGRAM = resolve("packages/runner/test/fixtures/mcp.mjs");

export interface McpServer {
  /** The default is the well-behaved server of the runner's tests. */
  program?: string;
  args?: string[];
  /** Additional lines of the manifest. */
  manifest?: string[];
  /** Additional fields of the binding. */
  binding?: object;
}

/** Returns the id of the binding; its tools are `mcp_NAME_…`. */
export async function bindMcpServer(
  gateway: TestGateway,
  folder: string,
  name: string,
  server: McpServer = {},
): Promise<string> {
  const dir = join(folder, name);
  mkdirSync(dir);
  writeFileSync(join(dir, "mcp.mjs"), server.program ?? readFileSync(MCP_PROGRAM));
  const lines = [
    'api_version = "vai.plugin.v1"',
    `package_id = "acme/${name}"`,
    'version = "1.0.0"',
    `name = "${name}"`,
    "[runtime]",
    'protocol = "mcp.stdio"',
    `entrypoint = ${JSON.stringify(["node", "./mcp.mjs", ...(server.args ?? ["plain"])])}`,
    ...(server.manifest ?? []),
  ];
  writeFileSync(join(dir, "vai-plugin.toml"), `${lines.join("\n")}\n`);
  const installed = await gateway.http("POST", "/v1/plugin-packages", { source: { folder: dir } });
  expect(installed.status, JSON.stringify(installed.body)).toBe(201);
  const bound = await gateway.http<{ binding_id: string }>("POST", "/v1/plugin-bindings", {
    package_id: `acme/${name}`,
    package_version: "1.0.0",
    export_id: "*",
    ...server.binding,
  });
  expect(bound.status, JSON.stringify(bound.body)).toBe(201);
  return bound.body.binding_id;
}

export interface EndedCall {
  status: string;
  class: string;
  error: { code: string; message: string } | null;
  tool_result: { content: { text: string }[] } | null;
}

export async function callTool(
  gateway: TestGateway,
  export_id: string,
  input: object = {},
): Promise<EndedCall> {
  return (await gateway.http<EndedCall>("POST", "/v1/invocations?wait=30", { export_id, input })).body;
}
