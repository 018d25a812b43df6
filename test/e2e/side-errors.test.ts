/** One fixture per failure of a side process: the same code in the record, over HTTP and in the CLI. */
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { installAndBind, writePluginFolder } from "../support/plugins/plugin-folder.ts";
import { verifies } from "../support/verifies.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.dispose());

const hello = (id: string, more = "") =>
  `printf '{"type":"handshake","manifest":{"plugin_id":"acme/${id}","plugin_version":"1.0.0","protocol_version":"rterm.plugin.v1","exposed_tools":["run"]${more}}}\\n'`;
const send_response = `printf '{"type":"response","request_id":"%s","status":"ok","output":1}\\n' "$id"`;
const read_id = `read -r line; id=$(printf '%s' "$line" | sed 's/.*"request_id":"\\([^"]*\\)".*/\\1/')`;

interface Failure {
  code: string;
  exit: number;
  script: string;
  capabilities?: string[];
  shebang?: string;
  timeout_ms?: number;
}

const failures: Failure[] = [
  { code: "launch_failed", exit: 1, shebang: "#!/opt/none/interpreter", script: "" },
  { code: "handshake_failed", exit: 1, script: "read -r line; echo not json" },
  {
    code: "timeout",
    exit: 124,
    script: `read -r line; ${hello("timeout")}; ${read_id}; sleep 60`,
    timeout_ms: 700,
  },
  { code: "crashed", exit: 1, script: `read -r line; ${hello("crashed")}; ${read_id}; exit 3` },
  {
    code: "malformed_response",
    exit: 1,
    script: `read -r line; ${hello("malformed-response")}; ${read_id}; echo '{"type":"response"}'`,
  },
  {
    code: "tool_not_exposed",
    exit: 1,
    script: `read -r line; ${hello("tool-not-exposed").replace('"run"', '"other"')}; ${read_id}; ${send_response}`,
  },
  {
    code: "protocol_version_mismatch",
    exit: 1,
    script: `read -r line; ${hello("protocol-version-mismatch").replace("rterm.plugin.v1", "rterm.plugin.v9")}; ${read_id}; ${send_response}`,
  },
  {
    code: "capability_not_declared",
    exit: 1,
    script: `read -r line; ${hello("capability-not-declared")}; ${read_id}; ${send_response}`,
    capabilities: ["files"],
  },
  {
    code: "capability_not_allowed",
    exit: 3,
    script: `read -r line; ${hello("capability-not-allowed", ',"capabilities":["files","root"]')}; ${read_id}; ${send_response}`,
    capabilities: ["files"],
  },
];

async function bindFailure(failure: Failure): Promise<string> {
  const id = failure.code.replaceAll("_", "-");
  const folder = writePluginFolder({
    package_id: `acme/${id}`,
    protocol: "rterm.plugin.v1",
    entrypoint: ["./bin/plugin"],
    files: { "bin/plugin": `${failure.shebang ?? "#!/bin/sh"}\n${failure.script}\n` },
    exports: [{ id: "run" }],
  });
  const policy = { class: "worker", ...(failure.capabilities && { capabilities: failure.capabilities }) };
  const { run } = await installAndBind(gateway, folder, ["run"], policy);
  return run!;
}

verifies(
  [
    "side.error.launch_failed",
    "side.error.handshake_failed",
    "side.error.timeout",
    "side.error.crashed",
    "side.error.malformed_response",
    "side.error.tool_not_exposed",
    "side.error.protocol_version_mismatch",
    "side.error.capability_not_declared",
    "side.error.capability_not_allowed",
  ],
  "reports each failure with its own code, the same in the record, over HTTP and in the CLI",
  async () => {
    for (const failure of failures) {
      const binding_id = await bindFailure(failure);
      const timeout_ms = failure.timeout_ms ?? 10_000;
      const http = await gateway.http<{
        id: string;
        status: string;
        error: { code: string; message: string };
      }>("POST", "/v1/invocations?wait=true", { binding_id, input: {}, timeout_ms });
      expect(http.body.error?.code, failure.code).toBe(failure.code);
      expect(http.body.status, failure.code).toBe("failed");
      const record = await gateway.http<{ error: { code: string } }>(
        "GET",
        `/v1/invocations/${http.body.id}`,
      );
      expect(record.body.error.code).toBe(failure.code);
      const cli = await gateway.cli(
        "invoke",
        "run",
        "--binding",
        binding_id,
        "--timeout",
        String(timeout_ms),
        "--input",
        "{}",
      );
      expect(cli.stderr, failure.code).toContain(`error[${failure.code}]`);
      expect(cli.code, cli.stderr).toBe(failure.exit);
      expect(cli.stderr.trim().split("\n").at(-1)).toMatch(/^fix: /);
    }
  },
  60_000,
);
