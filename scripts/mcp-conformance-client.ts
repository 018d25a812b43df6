/**
 * Runs our MCP client for the public conformance suite, which passes the URL of its server as the last argument. The
 * scenarios with a sign-in use a running gateway (mcp-conformance-gateway.ts), all others use a runner directly:
 *
 *   npx @modelcontextprotocol/conformance client --requirements 2026-07-28 \
 *     --command "node --conditions=backplane-source scripts/mcp-conformance-client.ts"
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Json } from "@backplane/contract";
import type { Clock, DescribeRequest } from "@backplane/ports";
import { createRunner } from "@backplane/runner";
import { grantWith } from "@backplane/test-kit/grant-with";

const url = new URL(process.argv.at(-1)!);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? "";
if (scenario.startsWith("auth/")) {
  const { runThroughGateway } = await import("./mcp-conformance-gateway.ts");
  await runThroughGateway(url, scenario);
  process.exit(0);
}

const scratch_root = mkdtempSync(join(tmpdir(), "backplane-conformance-"));
const clock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return { stop: () => clearTimeout(timer) };
  },
};
const noop = () => {};
const runner = createRunner({
  files: { open: async () => ({ folder: scratch_root, check: async () => {}, release: noop }) },
  clock,
  scratch_root,
  host: { name: "backplane", version: "0.1.0" },
  // The suite starts dozens of clients concurrently, and a server that responds late must not be mistaken for a server
  // of an older revision.
  timeouts: { discover_ms: 120_000, initialize_ms: 120_000 },
  // The suite listens on the loopback interface, which only an operator may allow.
  egress: { operator_allows: [url.host], resolve: async () => ["127.0.0.1"] },
  log: { debug: noop, info: noop, warn: noop, error: noop } as never,
});

const grant = grantWith({ class: "worker", network: "egress", allowed_domains: [url.host] });
const request: DescribeRequest = {
  package: {
    package_id: "conformance/server",
    version: "1.0.0",
    digest: `sha256:${"0".repeat(64)}`,
    runtime: { protocol: "mcp.http", transport: "http", entrypoint: [url.href], env: {} },
  },
  binding_id: "bind_conformance",
  pool_key: "conformance",
  grant,
  class: "worker",
  context: { org_id: "org_local", config: {}, secrets: {}, grant },
  timeout_ms: 240_000,
};

const { exports, schemas } = await runner.describe!(request);
const echo_schema = exports.find(({ tool }) => tool.native_name === "json_schema_2020_12_tool")?.tool
  .input_schema;
const ARGUMENTS: Record<string, Json> = {
  add_numbers: { a: 5, b: 3 },
  valid_tool: { region: "us-west1" },
  ...(echo_schema === undefined ? {} : { json_schema_echo: { schema: schemas[echo_schema]! } }),
};
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}") as {
  toolCalls?: { name: string; arguments: Json }[];
};
for (const call of context.toolCalls ?? []) ARGUMENTS[call.name] = call.arguments;

for (const [index, { id, tool }] of exports.entries()) {
  const native_name = tool.native_name!;
  const invocation_id = `inv_${index}`;
  const outcome = await runner.run(
    {
      ...request,
      invocation_id,
      attempt: 1,
      export_id: id,
      native_name,
      ...(tool.param_headers === undefined ? {} : { param_headers: tool.param_headers }),
      op: "tool.invoke",
      body: { tool_execution_id: invocation_id, input: ARGUMENTS[native_name] ?? {} },
      context: {
        ...request.context,
        invocation_id,
        trace_id: "tr_1",
        deadline_at: new Date(Date.now() + 240_000).toISOString(),
        gateway: { base_url: "http://127.0.0.1:1", scopes: [] },
      },
    },
    { event: noop, answerRequest: async () => ({ action: "accept", content: {} }) },
  );
  console.log(native_name, outcome.status, JSON.stringify(outcome.error ?? outcome.result));
}
await runner.close(1_000);
rmSync(scratch_root, { recursive: true, force: true });
