/** Python packages that a real gateway builds from source archives in its sandbox, as root and as an ordinary user. */
import { execFile, execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  BACKEND,
  type PythonIndex,
  sdist,
  selfBuildingSource,
  startPythonIndex,
  wheel,
} from "../../../packages/supply/test/support/python-index.ts";
import { startTestGateway } from "../../support/gateway/gateway.ts";
import { callTool } from "../../support/mcp/mcp-server.ts";
import { PYTHON_SERVER } from "../../support/mcp/python-mcp-server.ts";
import { verifies } from "../../support/verifies.ts";

let index: PythonIndex;
let folder: string;
/** A folder in which only code outside the sandbox could create files. */
let outside: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-python-builds-"));
  chmodSync(folder, 0o755);
  outside = join(folder, "outside");
  mkdirSync(outside);
  chmodSync(outside, 0o777);
  index = await startPythonIndex();
  const { port } = new URL(index.url);
  // The build records what it sees in a module, and the server returns the content of that module.
  const probe = `
import json, os, socket
from acme_build_tool import build_wheel as plain

def attempt(work):
    try:
        work()
        return True
    except OSError:
        return False

seen = {
    "outside": attempt(lambda: open(${JSON.stringify(join(outside, "backend"))}, "w")),
    "network": attempt(lambda: socket.create_connection(("127.0.0.1", ${port}), timeout=5)),
    "secrets": [name for name in os.environ if "BACKPLANE" in name or "CANARY" in name],
    "root": os.path.exists("/root"),
}

def get_requires_for_build_wheel(config_settings=None):
    return ["acme-build-late"]

def build_wheel(directory, *args):
    import acme_build_late
    os.makedirs("locked/inner")
    os.chmod("locked", 0)
    os.makedirs("files")
    with open("files/acme_words.py", "w") as file:
        file.write("WORD = " + repr(json.dumps(seen)) + "\\n")
    return plain(directory, *args)
`;
  const { files } = selfBuildingSource({ name: "acme-seen" });
  const source = {
    ...files,
    "pyproject.toml":
      '[build-system]\nrequires = ["acme-build-tool>=1"]\nbuild-backend = "own_backend"\nbackend-path = ["."]\n',
    "own_backend.py": probe,
    "setup.py": `open(${JSON.stringify(join(outside, "setup"))}, "w").close()\n`,
  };
  const publish = (name: string, { file, bytes }: { file: string; bytes: Buffer }) =>
    index.publish(name, file, bytes);
  publish("acme-seen", sdist({ name: "acme-seen", files: source }));
  publish("acme-build-tool", wheel({ name: "acme-build-tool", files: { "acme_build_tool.py": BACKEND } }));
  publish("acme-build-late", wheel({ name: "acme-build-late", files: { "acme_build_late.py": "" } }));
  const server = { ...PYTHON_SERVER, name: "acme-mcp-built", scripts: ["x = acme_mcp_py:main"] };
  publish("acme-mcp-built", wheel({ ...server, requires: ["acme-seen"] }));
});
afterAll(async () => {
  await index.close();
  rmSync(folder, { recursive: true, force: true });
});

function createHome(parent: string): string {
  const home = join(parent, "home");
  mkdirSync(home, { recursive: true, mode: 0o700 });
  writeFileSync(join(home, "backplane.toml"), `[pypi]\nindex_url = "${index.url}"\n`);
  return home;
}

const CONFINED = JSON.stringify({ outside: false, network: false, secrets: [], root: false });

verifies(
  "source.pypi",
  "builds a package in the sandbox once the operator allows it, and runs the server with it",
  async () => {
    process.env.HOST_CANARY = "canary-of-the-host";
    const gateway = await startTestGateway({ home: createHome(join(folder, "root")) });
    delete process.env.HOST_CANARY;
    try {
      const refused = await gateway.cli("plugin", "install", "pypi:acme-mcp-built");
      expect(refused.code).not.toBe(0);
      expect(refused.stderr).toContain("acme-seen is published only as a source archive");
      expect(refused.stderr).toContain(
        "backplane plugin install pypi:acme-mcp-built --allow-build acme-seen",
      );
      const mistyped = await gateway.cli(
        "plugin",
        "install",
        "pypi:acme-build-tool",
        "--allow-build",
        "acme-sen",
      );
      expect(mistyped.code).not.toBe(0);
      const installed = await gateway.cli(
        "plugin",
        "install",
        "pypi:acme-mcp-built",
        "--allow-build",
        "acme-seen",
      );
      expect(installed.code, installed.stderr).toBe(0);
      expect(installed.stderr).toContain("Installed pypi/acme-mcp-built@1.4.0+built.acme-seen");
      const { tool_result, error } = await callTool(gateway, "mcp_acme-mcp-built_look", {});
      expect(error).toBeNull();
      const look = JSON.parse(tool_result!.content[0]!.text) as { word: string };
      expect(JSON.parse(look.word)).toEqual(JSON.parse(CONFINED));
      expect([existsSync(join(outside, "backend")), existsSync(join(outside, "setup"))]).toEqual([
        false,
        false,
      ]);
      const { body } = await gateway.http<{ items: { action: string; details: object }[] }>(
        "GET",
        "/v1/audit?limit=100",
      );
      expect(JSON.stringify(body.items)).toContain("built from source: acme-seen==1.0.0");
      // The same version again, over HTTP and in an mcp.json.
      const again = await gateway.http("POST", "/v1/plugin-installations", {
        source: {
          kind: "mcp_json",
          document: { mcpServers: { built: { command: "uvx", args: ["acme-mcp-built"] } } },
        },
        allow_builds: ["acme-seen"],
      });
      expect(again.status, JSON.stringify(again.body)).toBe(200);
    } finally {
      await gateway.dispose();
    }
  },
);

test.runIf(process.getuid!() === 0)(
  "an ordinary user's gateway builds a Python package in the sandbox",
  async () => {
    const user_folder = join(folder, "ordinary");
    createHome(user_folder);
    const script = `
    import { startTestGateway } from ${JSON.stringify(join(process.cwd(), "test/support/gateway/gateway.ts"))};
    const gateway = await startTestGateway({ home: ${JSON.stringify(join(user_folder, "home"))} });
    const installed = await gateway.http("POST", "/v1/plugin-installations", {
      source: { kind: "pypi", spec: "acme-mcp-built" },
      allow_builds: ["acme-seen"],
    });
    const call = await gateway.http("POST", "/v1/invocations?wait=60", { export_id: "mcp_acme-mcp-built_look", input: {} });
    await gateway.stop();
    console.log(JSON.stringify({ installed: installed.status, body: installed.body, call: call.body }));
  `;
    writeFileSync(join(user_folder, "run.mts"), script);
    execFileSync("chown", ["-R", "65534:65534", user_folder]);
    // Asynchronously, because the index is in this process.
    const { stdout: output } = await promisify(execFile)(process.execPath, [join(user_folder, "run.mts")], {
      uid: 65_534,
      gid: 65_534,
      cwd: process.cwd(),
      env: { PATH: "/usr/bin:/bin", HOME: user_folder, TMPDIR: user_folder },
      timeout: 300_000,
    });
    const { installed, body, call } = JSON.parse(output.trim().split("\n").at(-1)!) as {
      installed: number;
      body: object;
      call: { tool_result: { content: { text: string }[] } };
    };
    expect(installed, JSON.stringify(body)).toBe(201);
    const look = JSON.parse(call.tool_result.content[0]!.text) as { word: string };
    expect(JSON.parse(look.word)).toEqual(JSON.parse(CONFINED));
    expect(existsSync(join(outside, "backend"))).toBe(false);
    // Even the folder `locked`, which its owner may not enter, was removed.
    expect(readdirSync(join(user_folder, "home", "blobs", "tmp"))).toEqual([]);
  },
);
