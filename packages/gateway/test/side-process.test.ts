/** A side-process plugin in a running gateway: its manifest and binding define it, not the values that it reports. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Binding, Invocation } from "@backplane/contract";
import { expect, onTestFinished } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";
import type { Gateway } from "../src/index.ts";
import { request, startTestGateway } from "./support/gateway.ts";

/** The plugin returns its arguments, its environment and the request that it received. */
const PROGRAM = `import json, os, sys, time
def say(value):
    print(json.dumps(value), flush=True)
json.loads(sys.stdin.readline())
say({"type": "handshake", "manifest": {"plugin_id": sys.argv[1], "plugin_version": "1",
    "protocol_version": "rterm.plugin.v1", "exposed_tools": ["notes.search", "stall"],
    "capabilities": ["notes.read"]}})
request = json.loads(sys.stdin.readline())
if request["tool_name"] == "stall":
    time.sleep(600)
say({"type": "response", "request_id": request["request_id"], "status": "ok", "output": {
    "args": sys.argv[1:], "greeting": os.environ.get("GREETING"),
    "tool_name": request["tool_name"], "input": request["input"]}})
`;
const SEARCH_SCHEMA = { type: "object", required: ["text"], properties: { text: { type: "string" } } };

function manifest(plugin_id: string, name: string): string {
  return `api_version = "vai.plugin.v1"
package_id = "acme/${name}"
version = "1.0.0"
name = "Notes"
[runtime]
protocol = "rterm.plugin.v1"
plugin_id = "Notes"
entrypoint = ["python3", "notes.py", "${plugin_id}", "--quiet"]
env = { GREETING = "hi" }
capabilities = ["notes.read", "notes.write"]
[[exports]]
id = "search"
kind = "tool"
description = "Searches the notes."
tool = { tool_name = "notes.search", effect_class = "read_only", input_schema = "schemas/search.json" }
[[exports]]
id = "stall"
kind = "tool"
tool = { effect_class = "read_only" }
`;
}

async function install(gateway: Gateway, plugin_id: string, name: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-side-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, "schemas"));
  writeFileSync(join(folder, "notes.py"), PROGRAM);
  writeFileSync(join(folder, "schemas/search.json"), JSON.stringify(SEARCH_SCHEMA));
  writeFileSync(join(folder, "vai-plugin.toml"), manifest(plugin_id, name));
  const response = await request(gateway, "POST", "/v1/plugin-packages", { source: { folder } });
  expect(response.status, JSON.stringify(response.body)).toBe(201);
}

async function bind(gateway: Gateway, name: string, export_id: string, policy: object): Promise<string> {
  const { status, body } = await request<Binding>(gateway, "POST", "/v1/plugin-bindings", {
    package_id: `acme/${name}`,
    package_version: "1.0.0",
    export_id,
    policy: { class: "worker", ...policy },
  });
  expect(status, JSON.stringify(body)).toBe(201);
  return body.binding_id;
}

async function call(gateway: Gateway, body: object): Promise<Invocation> {
  return (await request<Invocation>(gateway, "POST", "/v1/invocations?wait=true", body)).body;
}

const LONG_MS = 60_000;

verifies(
  "side.spec",
  "runs a bound side process with the command, args, env, capabilities and tools from its manifest and binding",
  async () => {
    const gateway = await startTestGateway([]);
    await install(gateway, "Notes", "notes");
    const capabilities = ["notes.read"];
    const binding_id = await bind(gateway, "notes", "search", { capabilities, timeout_ms: LONG_MS });
    const input = { text: "billing" };
    const invocation = await call(gateway, { binding_id, input });
    expect(invocation).toMatchObject({
      status: "succeeded",
      binding_id,
      timeout_ms: LONG_MS,
      grant: { capabilities },
      result: {
        structured_output: { args: ["Notes", "--quiet"], greeting: "hi", tool_name: "notes.search", input },
      },
    });
    const tools = await request<{ items: object[] }>(gateway, "GET", "/v1/plugin-tools");
    expect(tools.body.items).toContainEqual(
      expect.objectContaining({
        export_id: "search",
        description: "Searches the notes.",
        input_schema: SEARCH_SCHEMA,
      }),
    );
    // Calls are checked against the same schema.
    const invalid = await request(gateway, "POST", "/v1/invocations?wait=true", { binding_id, input: {} });
    expect(invalid.body).toMatchObject({ error: { code: "input.invalid" } });
    // Neither the manifest alone nor the handshake grants a capability.
    await install(gateway, "Notes", "bare");
    const bare = await bind(gateway, "bare", "search", { timeout_ms: LONG_MS });
    expect(await call(gateway, { binding_id: bare, input })).toMatchObject({
      grant: { capabilities: [] },
      error: { code: "capability_not_allowed" },
    });
    await install(gateway, "Stranger", "stranger");
    const stranger = await bind(gateway, "stranger", "search", { capabilities, timeout_ms: LONG_MS });
    expect(await call(gateway, { binding_id: stranger, input })).toMatchObject({
      error: { code: "handshake_failed", message: expect.stringContaining("Stranger") },
    });
  },
);

verifies("side.wire", "times out a call to a side process after 5 s if no timeout is set", async () => {
  const gateway = await startTestGateway([]);
  await install(gateway, "Notes", "notes");
  const binding_id = await bind(gateway, "notes", "stall", { capabilities: ["notes.read"] });
  const ended = await call(gateway, { binding_id, input: {} });
  expect(ended).toMatchObject({ status: "failed", error: { code: "timeout" }, timeout_ms: 5_000 });
  expect(Date.parse(ended.ended_at!) - Date.parse(ended.started_at!)).toBeGreaterThanOrEqual(4_990);
});
