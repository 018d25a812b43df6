/** Upgrades of a real plugin in a real gateway: what a candidate does before and after it receives traffic. */
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ReplayReport } from "@backplane/contract";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../../support/plugins/plugin-folder.ts";
import { verifies } from "../../support/verifies.ts";

const PACKAGE = "acme/notes";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.dispose());

/** The tool `find` returns its input and the result of the function `more`. */
function writeVersion(version: string, more: string): string {
  const handle = `async ({ body: { input, context } }) => {
    const extra = await (${more})(input, context);
    return { status: "succeeded", result: { content: [], structured_output: { input, ...extra } } };
  }`;
  return writePluginFolder({
    package_id: PACKAGE,
    version,
    entrypoint: ["node", "plugin.mjs"],
    files: { "plugin.mjs": vaiProgram(PACKAGE, handle, version) },
    exports: [{ id: "find" }],
  });
}

async function find(text: string): Promise<FoundCall> {
  const body = { export_id: "find", input: { text } };
  return (await gateway.http<FoundCall>("POST", "/v1/invocations?wait=30", body)).body;
}

verifies(
  "upgrade.replay",
  "holds a real candidate that contacts another host, gives it no secret, and keeps running the old version",
  async () => {
    await installAndBind(gateway, writeVersion("1.0.0", "() => ({})"), ["find"]);
    for (const text of ["a", "b"]) expect(await find(text)).toMatchObject({ status: "succeeded" });
    const dials = `async (input, context) => {
      const { connect } = await import("node:net");
      if (input.text === "b") await new Promise((resolve) => {
        const socket = connect(443, "192.0.2.7");
        socket.once("error", resolve);
        socket.once("connect", resolve);
      });
      return { secrets: Object.values(context.secrets).map((value) => value.length), loud: input.text === "b" };
    }`;
    const result = await gateway.cli(
      "plugin",
      "replay",
      PACKAGE,
      "--candidate",
      writeVersion("1.1.0", dials),
      "--json",
    );
    expect(result).toMatchObject({ code: 3 });
    const report = JSON.parse(result.stdout) as ReplayReport;
    expect(report).toMatchObject({
      verdict: "held",
      counts: { changed: 2, failed: 0 },
      permissions: { attempted: [{ host: "192.0.2.7", port: 443 }] },
      latency: { ratio: expect.any(Number) },
    });
    // The candidate got the placeholder in place of the secret.
    const sizes = report.calls[0]!.differences.find(({ path }) => path === "/structured_output/secrets");
    expect(sizes).toMatchObject({ candidate: ["replay-without-secret".length] });
    expect(await find("c")).toMatchObject({ status: "succeeded", package_version: "1.0.0" });
    const listed = await gateway.http<{ items: unknown[] }>("GET", "/v1/invocations");
    expect(listed.body.items).toHaveLength(3);
  },
  120_000,
);

interface FoundCall {
  id: string;
  status: string;
  package_version: string;
  fallback_from?: { package_version: string; error: { code: string } };
}

interface BindingView {
  binding_id: string;
  package_version: string;
  rolled_back?: { reason: string };
  held_upgrade?: { permissions: string[] };
}

const listBindings = async () =>
  (await gateway.http<{ items: BindingView[] }>("GET", `/v1/plugin-bindings?package_id=${PACKAGE}`)).body
    .items;

verifies(
  "bind.hot",
  "rolls a real version back within 5 s after it crashes, and the previous version answers its calls",
  async () => {
    const crashes = `(input) => { if (input.text !== "probe") process.exit(9); return {}; }`;
    const upgraded = await gateway.cli(
      "plugin",
      "upgrade",
      PACKAGE,
      "--from",
      writeVersion("2.0.0", crashes),
      "--yes",
    );
    expect(upgraded).toMatchObject({ code: 0 });
    expect((await listBindings())[0]).toMatchObject({ package_version: "2.0.0" });
    const started = performance.now();
    const calls = await Promise.all(["x", "y", "z"].map(find));
    const took = performance.now() - started;
    for (const call of calls) expect(call).toMatchObject({ status: "succeeded", package_version: "1.0.0" });
    const crashed = calls.filter(({ fallback_from }) => fallback_from !== undefined);
    expect(crashed[0]!.fallback_from).toMatchObject({ package_version: "2.0.0", error: { code: "crashed" } });
    expect(took).toBeLessThan(5_000);
    console.log(`rolled back and answered ${took.toFixed(0)} ms after the calls that crashed`);
    const invocation_output = await gateway.cli("invocation", "show", crashed[0]!.id);
    expect(invocation_output.stdout).toMatch(/fallback_from:\s+2\.0\.0 ended with crashed/);
    expect((await listBindings())[0]!.rolled_back).toMatchObject({ reason: "A call ended with crashed." });
  },
  120_000,
);

verifies(
  "upgrade.moves",
  "holds a real version that requests another permission until an admin grants the permission",
  async () => {
    const folder = writeVersion("3.0.0", "() => ({})");
    const manifest = join(folder, "vai-plugin.toml");
    const wider = 'network = "egress"\nallowed_domains = ["b.example"]\nsecret_slots';
    writeFileSync(manifest, readFileSync(manifest, "utf8").replace("secret_slots", wider));
    const held = await gateway.cli("plugin", "upgrade", PACKAGE, "--from", folder, "--yes");
    expect(held).toMatchObject({ code: 3 });
    expect(held.stderr).toContain("find will be able to use the network: b.example.");
    expect(held.stderr).toContain("waits for an admin. 1.0.0 stays in use.");
    expect((await listBindings())[0]!.held_upgrade).toMatchObject({ permissions: ["network"] });
    expect(await find("y")).toMatchObject({ status: "succeeded", package_version: "1.0.0" });
    const granted = await gateway.cli(
      "plugin",
      "upgrade",
      `${PACKAGE}@3.0.0`,
      "--grant-permissions",
      "--yes",
    );
    expect(granted).toMatchObject({ code: 0 });
    expect(await find("y")).toMatchObject({ status: "succeeded", package_version: "3.0.0" });
    expect(await gateway.cli("plugin", "rollback", PACKAGE)).toMatchObject({ code: 0 });
    expect(await find("y")).toMatchObject({ status: "succeeded", package_version: "1.0.0" });
  },
  120_000,
);

/** A server on stdio whose tool `find` returns `answer` and its input. */
function writeServer(version: string, answer: string): string {
  const program = `import { createInterface } from "node:readline";
const find = { name: "find", description: "Finds.", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } };
const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "notes", version: "1" } }),
  "tools/list": () => ({ tools: [find] }),
  "tools/call": ({ arguments: input }) => ({ content: [{ type: "text", text: ${JSON.stringify(answer)} + input.text }] }),
  ping: () => ({}),
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const answer = answers[method];
  const reply = answer === undefined ? { error: { code: -32601, message: "unknown" } } : { result: answer(params ?? {}) };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...reply }) + "\\n");
});
`;
  const folder = mkdtempSync(join(tmpdir(), "backplane-server-"));
  writeFileSync(join(folder, "server.mjs"), program);
  const lines = [
    'api_version = "vai.plugin.v1"',
    'package_id = "acme/server"',
    `version = "${version}"`,
    'name = "server"',
    "[runtime]",
    'protocol = "mcp.stdio"',
    'entrypoint = ["node", "./server.mjs"]',
  ];
  writeFileSync(join(folder, "vai-plugin.toml"), `${lines.join("\n")}\n`);
  return folder;
}

/** A folder of tool files whose tool `lookup` returns `answer` and its input. */
function writeToolFolder(version: string, answer: string): string {
  const folder = mkdtempSync(join(tmpdir(), "backplane-tools-"));
  mkdirSync(join(folder, "tools"));
  writeFileSync(
    join(folder, "package.json"),
    JSON.stringify({ name: "lookup-kit", version, type: "module" }),
  );
  writeFileSync(
    join(folder, "tools", "lookup.ts"),
    `export default {
  description: "Looks something up.",
  defaultRiskLevel: "low" as const,
  input_schema: { type: "object", properties: { text: { type: "string" } } },
  async execute(input: Record<string, unknown>) {
    return { content: ${JSON.stringify(answer)} + input.text, isError: false };
  },
};
`,
  );
  return folder;
}

verifies(
  "upgrade.replay",
  "replays calls of a real MCP server and of real tool files, which describe their tools themselves",
  async () => {
    const cases = [
      { write: writeServer, tool: "mcp_server_find" },
      { write: writeToolFolder, tool: "lookup" },
    ];
    for (const { write, tool } of cases) {
      const installed = await gateway.cli("plugin", "install", write("1.0.0", "old "), "--bind", "--json");
      expect(installed, installed.stderr).toMatchObject({ code: 0 });
      const listed = await gateway.http<{ items: { package_id: string; version: string }[] }>(
        "GET",
        "/v1/plugin-packages?limit=1",
      );
      const { package_id } = listed.body.items[0]!;
      const call = await gateway.http<FoundCall>("POST", "/v1/invocations?wait=60", {
        export_id: tool,
        input: { text: "a" },
      });
      expect(call.body, JSON.stringify(call.body)).toMatchObject({ status: "succeeded" });
      const replay = async (version: string, answer: string) => {
        const candidate = write(version, answer);
        const result = await gateway.cli("plugin", "replay", package_id, "--candidate", candidate, "--json");
        expect(result.stdout, result.stderr).not.toBe("");
        return JSON.parse(result.stdout) as ReplayReport;
      };
      expect(await replay("1.1.0", "old ")).toMatchObject({
        verdict: "same",
        counts: { same: 1 },
        problems: [],
      });
      const changed = await replay("1.2.0", "new ");
      expect(changed).toMatchObject({ verdict: "changed", counts: { changed: 1 }, problems: [] });
      expect(JSON.stringify(changed.calls)).toContain("new a");
    }
  },
  180_000,
);
