/** MCP servers from a Python index, installed by a real gateway and called in its sandbox. */
import { execFile, execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type PythonIndex,
  startPythonIndex,
  wheel,
} from "../../../packages/supply/test/support/python-index.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { callTool } from "../../support/mcp/mcp-server.ts";
import { PYTHON_SERVER, pythonServerWheels } from "../../support/mcp/python-mcp-server.ts";
import { verifies } from "../../support/verifies.ts";

let index: PythonIndex;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-python-"));
  chmodSync(folder, 0o755);
  index = await startPythonIndex();
  for (const { project, file, bytes } of pythonServerWheels()) index.publish(project, file, bytes);
});
afterAll(async () => {
  await index.close();
  rmSync(folder, { recursive: true, force: true });
});

function createHome(name: string, config: string): string {
  const home = join(folder, name);
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, "backplane.toml"), config);
  return home;
}

async function look(gateway: TestGateway, export_id: string): Promise<Record<string, unknown>> {
  const { tool_result, error } = await callTool(gateway, export_id, {});
  expect(error).toBeNull();
  return JSON.parse(tool_result!.content[0]!.text) as Record<string, unknown>;
}

describe("a gateway that runs as root", () => {
  let gateway: TestGateway;

  beforeAll(async () => {
    const home = createHome("root", `[pypi]\nindex_url = "${index.url}"\n`);
    gateway = await startTestGateway({ home });
  });
  afterAll(() => gateway?.dispose());

  verifies(
    "source.pypi",
    "runs the server of pypi:NAME in the sandbox with its dependencies, arguments and secrets",
    async () => {
      const stored = await gateway.http("PUT", "/v1/secrets/api_key", { value: "a-secret-value" });
      expect(stored.status).toBeLessThan(300);
      const installed = await gateway.cli(
        "plugin",
        "install",
        "pypi:acme-mcp-py==1.4",
        "--secret",
        "api_key=api_key",
        "--",
        "--level",
        "high",
      );
      expect(installed, installed.stderr).toMatchObject({ code: 0 });
      expect(installed.stderr).toContain("Installed pypi/acme-mcp-py@1.4.0");
      expect(await look(gateway, "mcp_acme-mcp-py_look")).toMatchObject({
        word: "dependency",
        arguments: ["--level", "high"],
        token: "[redacted]",
        home: false,
        writable: false,
        path: ["/plugin/site-packages"],
      });
      // The server received the secret; results are redacted.
      expect(JSON.stringify(await look(gateway, "mcp_acme-mcp-py_look"))).not.toContain("a-secret-value");
    },
  );

  test("a server reaches no host if its binding allows no domain", async () => {
    const server = createServer((_request, response) => void response.end());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const { tool_result } = await callTool(gateway, "mcp_acme-mcp-py_reach", { host: "127.0.0.1", port });
    expect(tool_result!.content[0]!.text).toContain('"reached": false');
    server.close();
  });

  test("installs the package of a uvx command in an mcp.json", async () => {
    const { file, bytes } = wheel({ ...PYTHON_SERVER, name: "acme-uvx" });
    index.publish("acme-uvx", file, bytes);
    const mcpServers = {
      one: { command: "uvx", args: ["--from", "acme-uvx==1.4", "acme-mcp-py", "--one"] },
      later: { command: "uvx", args: ["--python", "3.99", "acme-mcp-py"] },
    };
    writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers }));
    const installed = await gateway.cli("plugin", "install", join(folder, "mcp.json"));
    expect(installed.code, installed.stderr).toBe(8);
    expect(installed.stderr).toContain("later calls uvx with --python, which is not supported");
    expect(await look(gateway, "mcp_one_look")).toMatchObject({ arguments: ["--one"] });
  });

  test("limits a package with native code to the operating system of its wheel", async () => {
    const run = (code: string) => execFileSync("/usr/bin/python3", ["-c", code], { encoding: "utf8" }).trim();
    const version = run("import sys; print('%d%d' % sys.version_info[:2])");
    const tag = `cp${version}-cp${version}-linux_${run("import platform; print(platform.machine())")}`;
    const { file, bytes } = wheel({
      ...PYTHON_SERVER,
      name: "acme-native",
      scripts: ["x = acme_mcp_py:main"],
      tag,
    });
    index.publish("acme-native", file, bytes);
    const source = { kind: "pypi", spec: "acme-native" };
    const { status, body } = await gateway.http<{ packages: { package: { manifest: object } }[] }>(
      "POST",
      "/v1/plugin-installations",
      { source },
    );
    expect(status, JSON.stringify(body)).toBe(201);
    expect(body.packages[0]!.package.manifest).toMatchObject({ runtime: { os: ["linux"] } });
    expect(await look(gateway, "mcp_acme-native_look")).toMatchObject({ word: "dependency" });
  });

  test("refuses a Python package to a key without the admin role", async () => {
    const key = await gateway.http<{ token: string }>("POST", "/v1/keys", {
      name: "operator",
      scopes: ["packages:write", "bindings:write"],
    });
    const response = await gateway.http(
      "POST",
      "/v1/plugin-installations",
      { source: { kind: "pypi", spec: "acme-mcp-py" } },
      { authorization: `Bearer ${key.body.token}` },
    );
    expect(response).toMatchObject({ status: 403 });
  });
});

test.runIf(process.getuid!() === 0)(
  "an ordinary user's gateway installs a server from a Python index and runs it",
  async () => {
    const user_folder = join(folder, "ordinary");
    mkdirSync(user_folder);
    const script = `
    import { startTestGateway } from ${JSON.stringify(join(process.cwd(), "test/support/gateway/gateway.ts"))};
    const gateway = await startTestGateway({ home: ${JSON.stringify(join(user_folder, "home"))} });
    const installed = await gateway.http("POST", "/v1/plugin-installations", {
      source: { kind: "pypi", spec: "acme-mcp-py" },
    });
    const call = await gateway.http("POST", "/v1/invocations?wait=60", { export_id: "mcp_acme-mcp-py_look", input: {} });
    await gateway.stop();
    console.log(JSON.stringify({ installed: installed.status, call: call.body }));
  `;
    mkdirSync(join(user_folder, "home"), { mode: 0o700 });
    writeFileSync(join(user_folder, "home", "backplane.toml"), `[pypi]\nindex_url = "${index.url}"\n`);
    writeFileSync(join(user_folder, "run.mts"), script);
    execFileSync("chown", ["-R", "65534:65534", user_folder]);
    const node = process.execPath;
    // Asynchronously, because the index is in this process.
    const { stdout: output } = await promisify(execFile)(node, [join(user_folder, "run.mts")], {
      uid: 65_534,
      gid: 65_534,
      cwd: process.cwd(),
      env: { PATH: "/usr/bin:/bin", HOME: user_folder, TMPDIR: user_folder },
      timeout: 300_000,
    });
    const { installed, call } = JSON.parse(output.trim().split("\n").at(-1)!) as {
      installed: number;
      call: { status: string; tool_result: { content: { text: string }[] } };
    };
    expect(installed).toBe(201);
    expect(call.status, JSON.stringify(call)).toBe("succeeded");
    expect(JSON.parse(call.tool_result.content[0]!.text)).toMatchObject({ word: "dependency", uid: 1000 });
  },
);
