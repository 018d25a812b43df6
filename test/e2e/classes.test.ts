/** Which class each dialect has by itself, on a gateway as it comes and on one that has no sandbox (sandbox.class). */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { InstrumentPluginView, Invocation, PluginRow } from "@backplane/contract";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import {
  folderOf,
  instrument,
  kernelPlugin,
  MCP,
  rpcProgram,
  SIDE,
  TOOL_FILE,
} from "../support/looking-plugins.ts";
import { installAndBind, writePluginFolder } from "../support/plugin-folder.ts";
import { verifies } from "../support/verifies.ts";

interface Looked {
  born: string;
  seccomp: string;
  sees_home: boolean;
  networks: number;
  dialled?: string | null;
  fetched?: string | null;
}

interface Refused {
  code: string;
  message: string;
  details?: { fix: string };
}

let base: string;
let gateway: TestGateway;
let server: Server;

beforeAll(async () => {
  base = mkdtempSync(join(tmpdir(), "backplane-classes-"));
  server = createServer((_request, response) => response.end("reached"));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  const place = `localhost:${(server.address() as AddressInfo).port}`;
  writeFileSync(join(home, "backplane.toml"), `[egress]\nallow_private = ["${place}"]\n`);
  gateway = await startTestGateway({ home });
  await installAll();
});
afterAll(async () => {
  await gateway.dispose();
  server.close();
  rmSync(base, { recursive: true, force: true });
});

/** As an operator would, without a word about classes. */
async function installAll(): Promise<void> {
  const tolerant = await gateway.cli("policy", "set", "tolerance.conversation", "full");
  expect(tolerant.code, tolerant.stderr).toBe(0);
  const side = writePluginFolder({
    package_id: "acme/side",
    protocol: "rterm.plugin.v1",
    entrypoint: ["node", "./side.mjs"],
    files: { "side.mjs": SIDE },
    exports: [{ id: "side" }],
  });
  await installAndBind(gateway, side, ["side"], {});
  const rpc = writePluginFolder({
    package_id: "acme/rpc",
    entrypoint: ["node", "./rpc.mjs"],
    files: {
      "rpc.mjs": rpcProgram("acme/rpc"),
    },
    // It asks for less isolation; that is not its to ask.
    exports: [{ id: "rpc" }, { id: "wish", extra: 'execution_class = "worker"' }],
  });
  await installAndBind(gateway, rpc, ["rpc", "wish"], {});
  const mcp = folderOf(base, "mcp", {
    "mcp.mjs": MCP,
    "vai-plugin.toml":
      'api_version = "vai.plugin.v1"\npackage_id = "acme/mcp"\nversion = "1.0.0"\nname = "mcp"\n' +
      '[runtime]\nprotocol = "mcp.stdio"\nentrypoint = ["node", "./mcp.mjs"]\n',
  });
  await installAndBind(gateway, mcp, ["*"], {});
  const tools = await gateway.cli(
    "plugin",
    "install",
    folderOf(base, "files", { "tools/toolfile.js": TOOL_FILE }),
  );
  expect(tools.code, tools.stderr).toBe(0);
  await gateway.http("POST", "/v1/instrument-plugins", { path: instrument(base, "external", "External") });
  await gateway.cli("plugin", "install", kernelPlugin(base), "--yes");
}

async function call(export_id: string, input: object = {}): Promise<Invocation> {
  const body = { export_id, input: { home: gateway.home, ...input } };
  return (await gateway.http<Invocation>("POST", "/v1/invocations?wait=60", body)).body;
}

async function look(export_id: string, input: object = {}): Promise<Looked & { class: string }> {
  const record = await call(export_id, input);
  expect(record, JSON.stringify(record)).toMatchObject({ status: "succeeded" });
  const { content, structured_output } = record.tool_result as unknown as {
    content: { text: string }[];
    structured_output?: Looked & { display?: { data: Looked } };
  };
  const shown = structured_output?.display?.data ?? structured_output;
  const found = shown?.born === undefined ? (JSON.parse(content[0]!.text) as Looked) : shown;
  return { ...found, class: record.class };
}

const CONFINED = { seccomp: "2", sees_home: false, networks: 0 };

/** Who it is, and whether one process serves on. */
const DIALECTS = [
  ["side", "once"],
  ["rpc", "once"],
  ["wish", "once"],
  ["toolfile", "once"],
  ["mcp_mcp_mcp", "resident"],
  ["external", "resident"],
] as const;

verifies(
  "sandbox.class",
  "runs third-party programs isolated by default, External plugins and MCP servers as one process per binding",
  async () => {
    for (const [name, life] of DIALECTS) {
      const [first, second] = [await look(name), await look(name)];
      for (const one of [first, second]) {
        expect([name, one]).toEqual([name, expect.objectContaining({ class: "isolated", ...CONFINED })]);
      }
      expect([name, first.born === second.born]).toEqual([name, life === "resident"]);
    }
  },
  120_000,
);

verifies(
  "sandbox.class",
  "runs inline only by the operator's decision, with network access only to named hosts through the host's fetch",
  async () => {
    const { port } = server.address() as AddressInfo;
    const place = `localhost:${port}`;
    const reach = { port, url: `http://${place}/` };
    const row = async () =>
      JSON.parse((await gateway.cli("plugin", "info", "wisher", "--json")).stdout) as PluginRow;
    // Its wish is read by nobody: a process of its own, confined, without a network.
    expect(await row()).toMatchObject({ mode: "hosted", trusted: false, status: "loaded" });
    expect(await look("wisher", reach)).toMatchObject({
      ...CONFINED,
      dialled: "ECONNREFUSED",
      fetched: "policy.denied",
    });
    const trusted = await gateway.cli("plugin", "trust", "wisher", "--yes");
    expect(trusted.code, trusted.stderr).toBe(0);
    expect(await row()).toMatchObject({ mode: "inline", trusted: true });
    expect(await look("wisher", reach)).toMatchObject({
      sees_home: true,
      dialled: "policy.denied",
      fetched: "policy.denied",
    });
    const names = JSON.stringify([place]);
    expect((await gateway.cli("config", "set", "plugin.wisher.allowed_domains", names)).code).toBe(0);
    await expect.poll(async () => (await look("wisher", reach)).fetched, { timeout: 20_000 }).toBe("reached");
    // By an address that nobody named, a connection of its own is refused still.
    expect((await look("wisher", reach)).dialled).toBe("policy.denied");

    // In-process instruments: not trusted they are refused, trusted they are guarded in the same way.
    const path = instrument(base, "inproc", "InProcess");
    const install = (more: object) =>
      gateway.http<InstrumentPluginView>("POST", "/v1/instrument-plugins", { path, ...more });
    expect((await install({})).body).toMatchObject({
      state: "skipped",
      error: { code: "plugin.untrusted" },
    });
    expect((await install({ class: "inline" })).body).toMatchObject({ state: "running", class: "inline" });
    expect(await look("inproc", { port })).toMatchObject({
      class: "inline",
      sees_home: true,
      dialled: "policy.denied",
    });
  },
  120_000,
);

verifies(
  "sandbox.class",
  "runs a worker as one process per binding, confined like an isolated one",
  async () => {
    const rpc = writePluginFolder({
      package_id: "acme/worker",
      entrypoint: ["node", "./rpc.mjs"],
      files: { "rpc.mjs": rpcProgram("acme/worker") },
      exports: [{ id: "worker" }, { id: "second" }],
    });
    await installAndBind(gateway, rpc, ["worker", "second"], { class: "worker" });
    const [first, again, other] = [await look("worker"), await look("worker"), await look("second")];
    for (const one of [first, again, other]) {
      expect(one).toMatchObject({ class: "worker", ...CONFINED });
    }
    expect([again.born === first.born, other.born === first.born]).toEqual([true, false]);
  },
  120_000,
);

verifies(
  "sandbox.class",
  "refuses third-party code without a sandbox with sandbox.unavailable and the fix, and never downgrades it",
  async () => {
    const { home } = gateway;
    await gateway.stop();
    // A file where the sandbox keeps its own, so that it cannot be opened.
    rmSync(join(home, "sandbox"), { recursive: true });
    writeFileSync(join(home, "sandbox"), "");
    gateway = await startTestGateway({ home });
    for (const [name] of DIALECTS) {
      const { error } = (await call(name)) as unknown as { error: Refused };
      expect([name, error]).toMatchObject([name, { code: "sandbox.unavailable" }]);
      // Refused at the door, or by the runner while the sandbox was still being tried out.
      expect([name, error.details?.fix ?? error.message]).toEqual([
        name,
        expect.stringMatching(/backplane doctor\b/),
      ]);
    }
    // It runs inline by the operator's word; once that is taken back it does not load.
    await gateway.cli("plugin", "trust", "wisher", "--revoke");
    await gateway.stop();
    gateway = await startTestGateway({ home });
    const { stdout } = await gateway.cli("plugin", "info", "wisher", "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      mode: "hosted",
      status: "failed",
      error: expect.stringMatching(/\(sandbox\.unavailable\).* Fix: Run `backplane doctor`/),
    });
  },
  120_000,
);
