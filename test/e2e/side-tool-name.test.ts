/** A plugin of the side-process protocol (rterm.plugin.v1) whose tool names are not valid export ids. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { installAndBind } from "../support/plugins/plugin-folder.ts";
import { verifies } from "../support/verifies.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.dispose());

const PROGRAM = `import json, sys
def send(value):
    print(json.dumps(value), flush=True)
json.loads(sys.stdin.readline())
send({"type": "handshake", "manifest": {"plugin_id": "Python.Echo", "plugin_version": "0.3",
    "protocol_version": "rterm.plugin.v1", "exposed_tools": ["plugin.python_echo", "plugin.upper/case"]}})
request = json.loads(sys.stdin.readline())
text = request["input"]["text"]
output = {"plugin.python_echo": text, "plugin.upper/case": text.upper()}[request["tool_name"]]
send({"type": "response", "request_id": request["request_id"], "status": "ok", "output": output})
`;
const MANIFEST = `api_version = "vai.plugin.v1"
package_id = "acme/python-echo"
version = "0.3.0"
name = "Python echo"
[runtime]
protocol = "rterm.plugin.v1"
plugin_id = "Python.Echo"
entrypoint = ["python3", "plugin.py"]
[[exports]]
id = "python_echo"
kind = "tool"
[exports.tool]
tool_name = "plugin.python_echo"
[[exports]]
id = "upper"
kind = "tool"
[exports.tool]
tool_name = "plugin.upper/case"
[[exports]]
id = "missing"
kind = "tool"
[exports.tool]
tool_name = "plugin.missing"
`;

verifies(
  ["side.tool-name", "side.tool-exposed"],
  "calls tools whose names contain dots and slashes, and reports a tool that the plugin does not expose",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "backplane-side-plugin-"));
    writeFileSync(join(folder, "plugin.py"), PROGRAM);
    writeFileSync(join(folder, "vai-plugin.toml"), MANIFEST);
    const ids = ["python_echo", "upper", "missing"];
    const bindings = await installAndBind(gateway, folder, ids, { class: "worker" });
    const call = async (id: string) => {
      const request = { binding_id: bindings[id], input: { text: "Hello" }, timeout_ms: 60_000 };
      const response = await gateway.http<{
        status: string;
        result: { structured_output: unknown } | null;
        error: { code: string; message: string } | null;
      }>("POST", "/v1/invocations?wait=true", request);
      return response.body;
    };
    expect((await call("python_echo")).result?.structured_output).toBe("Hello");
    expect((await call("upper")).result?.structured_output).toBe("HELLO");
    expect((await call("missing")).error).toMatchObject({
      code: "tool_not_exposed",
      message: expect.stringContaining("plugin.python_echo, plugin.upper/case"),
    });
    const tools = await gateway.http<{ items: { export_id: string }[] }>("GET", "/v1/plugin-tools");
    const listed = tools.body.items.map(({ export_id }) => export_id);
    expect(listed).toEqual(expect.arrayContaining(["python_echo", "upper"]));
  },
  120_000,
);
