/** The default class of each dialect, with the default configuration and without a sandbox (sandbox.class). */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { InstrumentPluginView, Invocation, PluginView } from "@backplane/contract";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { installAndBind, writePluginFolder } from "../support/plugins/plugin-folder.ts";
import {
  MCP_SOURCE,
  rpcProgram,
  SIDE_SOURCE,
  TOOL_FILE,
  writeFolder,
  writeInstrument,
  writeKernelPlugin,
} from "../support/plugins/probe-plugins.ts";
import { verifies } from "../support/verifies.ts";

interface ProbeResult {
  instance: string;
  seccomp: string;
  sees_home: boolean;
  networks: number;
  dialed?: string | null;
  fetched?: string | null;
}

interface RefusedCall {
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
  const host = `localhost:${(server.address() as AddressInfo).port}`;
  writeFileSync(join(home, "backplane.toml"), `[egress]\nallow_private = ["${host}"]\n`);
  gateway = await startTestGateway({ home });
  await installAll();
});
afterAll(async () => {
  await gateway.dispose();
  server.close();
  rmSync(base, { recursive: true, force: true });
});

/** Installs and binds the plugins without setting a class. */
async function installAll(): Promise<void> {
  const tolerance = await gateway.cli("policy", "set", "tolerance.conversation", "full");
  expect(tolerance.code, tolerance.stderr).toBe(0);
  const side = writePluginFolder({
    package_id: "acme/side",
    protocol: "rterm.plugin.v1",
    entrypoint: ["node", "./side.mjs"],
    files: { "side.mjs": SIDE_SOURCE },
    exports: [{ id: "side" }],
  });
  await installAndBind(gateway, side, ["side"], {});
  const rpc = writePluginFolder({
    package_id: "acme/rpc",
    entrypoint: ["node", "./rpc.mjs"],
    files: {
      "rpc.mjs": rpcProgram("acme/rpc"),
    },
    // The package requests less isolation, which has no effect.
    exports: [{ id: "rpc" }, { id: "low_class", extra: 'execution_class = "worker"' }],
  });
  await installAndBind(gateway, rpc, ["rpc", "low_class"], {});
  const mcp = writeFolder(base, "mcp", {
    "mcp.mjs": MCP_SOURCE,
    "vai-plugin.toml":
      'api_version = "vai.plugin.v1"\npackage_id = "acme/mcp"\nversion = "1.0.0"\nname = "mcp"\n' +
      '[runtime]\nprotocol = "mcp.stdio"\nentrypoint = ["node", "./mcp.mjs"]\n',
  });
  await installAndBind(gateway, mcp, ["*"], {});
  const tools = await gateway.cli(
    "plugin",
    "install",
    writeFolder(base, "files", { "tools/toolfile.js": TOOL_FILE }),
  );
  expect(tools.code, tools.stderr).toBe(0);
  await gateway.http("POST", "/v1/instrument-plugins", {
    path: writeInstrument(base, "external", "External"),
  });
  await gateway.cli("plugin", "install", writeKernelPlugin(base), "--yes");
}

async function call(export_id: string, input: object = {}): Promise<Invocation> {
  const body = { export_id, input: { home: gateway.home, ...input } };
  return (await gateway.http<Invocation>("POST", "/v1/invocations?wait=60", body)).body;
}

async function probe(export_id: string, input: object = {}): Promise<ProbeResult & { class: string }> {
  const record = await call(export_id, input);
  expect(record, JSON.stringify(record)).toMatchObject({ status: "succeeded" });
  const { content, structured_output } = record.tool_result as unknown as {
    content: { text: string }[];
    structured_output?: ProbeResult & { display?: { data: ProbeResult } };
  };
  const data = structured_output?.display?.data ?? structured_output;
  const probe_result = data?.instance === undefined ? (JSON.parse(content[0]!.text) as ProbeResult) : data;
  return { ...probe_result, class: record.class };
}

const CONFINED = { seccomp: "2", sees_home: false, networks: 0 };

/** Each tool, and whether its process serves one call or stays resident. */
const TOOLS = [
  ["side", "once"],
  ["rpc", "once"],
  ["low_class", "once"],
  ["toolfile", "once"],
  ["mcp_mcp_mcp", "resident"],
  ["external", "resident"],
] as const;

verifies(
  "sandbox.class",
  "isolates third-party programs by default, and runs External plugins and MCP servers as one process per binding",
  async () => {
    for (const [name, lifetime] of TOOLS) {
      const [first, second] = [await probe(name), await probe(name)];
      for (const probed of [first, second]) {
        expect([name, probed]).toEqual([name, expect.objectContaining({ class: "isolated", ...CONFINED })]);
      }
      expect([name, first.instance === second.instance]).toEqual([name, lifetime === "resident"]);
    }
  },
  120_000,
);

verifies(
  "sandbox.class",
  "runs code inline only if the operator trusts it, with access only to named hosts through the host's fetch",
  async () => {
    const { port } = server.address() as AddressInfo;
    const host = `localhost:${port}`;
    const target = { port, url: `http://${host}/` };
    const readRow = async () =>
      JSON.parse((await gateway.cli("plugin", "info", "insider", "--json")).stdout) as PluginView;
    // The plugin's claims are ignored: it runs in its own confined process without network.
    expect(await readRow()).toMatchObject({ mode: "hosted", trusted: false, status: "loaded" });
    expect(await probe("insider", target)).toMatchObject({
      ...CONFINED,
      dialed: "ECONNREFUSED",
      fetched: "policy.denied",
    });
    const trusted = await gateway.cli("plugin", "trust", "insider", "--yes");
    expect(trusted.code, trusted.stderr).toBe(0);
    expect(await readRow()).toMatchObject({ mode: "inline", trusted: true });
    expect(await probe("insider", target)).toMatchObject({
      sees_home: true,
      dialed: "policy.denied",
      fetched: "policy.denied",
    });
    const names = JSON.stringify([host]);
    expect((await gateway.cli("config", "set", "plugin.insider.allowed_domains", names)).code).toBe(0);
    await expect
      .poll(async () => (await probe("insider", target)).fetched, { timeout: 20_000 })
      .toBe("reached");
    // A direct connection to an address that was not named is still refused.
    expect((await probe("insider", target)).dialed).toBe("policy.denied");

    // In-process instruments are refused unless trusted; trusted ones have the same network guard.
    const path = writeInstrument(base, "inproc", "InProcess");
    const install = (more: object) =>
      gateway.http<InstrumentPluginView>("POST", "/v1/instrument-plugins", { path, ...more });
    expect((await install({})).body).toMatchObject({
      state: "skipped",
      error: { code: "plugin.untrusted" },
    });
    expect((await install({ class: "inline" })).body).toMatchObject({ state: "running", class: "inline" });
    expect(await probe("inproc", { port })).toMatchObject({
      class: "inline",
      sees_home: true,
      dialed: "policy.denied",
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
    const [first, again, second] = [await probe("worker"), await probe("worker"), await probe("second")];
    for (const probed of [first, again, second]) {
      expect(probed).toMatchObject({ class: "worker", ...CONFINED });
    }
    expect([again.instance === first.instance, second.instance === first.instance]).toEqual([true, false]);
  },
  120_000,
);

verifies(
  "sandbox.class",
  "if there is no sandbox, refuses third-party code with sandbox.unavailable and the fix, and never downgrades it",
  async () => {
    const { home } = gateway;
    await gateway.stop();
    // A file in place of the sandbox's folder, so that the sandbox cannot be opened.
    rmSync(join(home, "sandbox"), { recursive: true });
    writeFileSync(join(home, "sandbox"), "");
    gateway = await startTestGateway({ home });
    for (const [name] of TOOLS) {
      const { error } = (await call(name)) as unknown as { error: RefusedCall };
      expect([name, error]).toMatchObject([name, { code: "sandbox.unavailable" }]);
      // Refused by admission, or by the runner while the self-test of the sandbox was still running.
      expect([name, error.details?.fix ?? error.message]).toEqual([
        name,
        expect.stringMatching(/backplane doctor\b/),
      ]);
    }
    // insider runs inline because the operator trusts it; without that trust it does not load.
    await gateway.cli("plugin", "trust", "insider", "--revoke");
    await gateway.stop();
    gateway = await startTestGateway({ home });
    const { stdout } = await gateway.cli("plugin", "info", "insider", "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      mode: "hosted",
      status: "failed",
      error: expect.stringMatching(/\(sandbox\.unavailable\).* Fix: Run `backplane doctor`/),
    });
  },
  120_000,
);
