/** One plugin per dialect that reports the process and the environment in which it runs. */
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { vaiProgram } from "./plugin-folder.ts";

/**
 * Part of every program. Reports an id of its process, its seccomp mode, whether it sees the gateway's home, and the
 * number of its network interfaces without the loopback.
 */
const PROBE = `
  import { randomUUID } from "node:crypto";
  import { existsSync, readFileSync } from "node:fs";
  import { networkInterfaces } from "node:os";
  const instance = randomUUID();
  const probe = (home) => ({
    instance,
    seccomp: /^Seccomp:\\s*(\\d)/m.exec(readFileSync("/proc/self/status", "utf8"))[1],
    sees_home: existsSync(home + "/admin.token"),
    networks: Object.keys(networkInterfaces()).filter((name) => name !== "lo").length,
  });
`;

/** The source of a side process. */
export const SIDE_SOURCE = `${PROBE}
  import { createInterface } from "node:readline";
  const send = (value) => process.stdout.write(JSON.stringify(value) + "\\n");
  for await (const line of createInterface({ input: process.stdin })) {
    const { type, request_id, ...rest } = JSON.parse(line);
    if (request_id === undefined) {
      send({ type: "handshake", manifest: { plugin_id: "acme/side", plugin_version: "1.0.0", protocol_version: "rterm.plugin.v1", exposed_tools: ["side"] } });
      continue;
    }
    const { home } = rest.input ?? rest.arguments ?? rest.params ?? {};
    send({ type: "response", request_id, status: "ok", output: probe(home) });
    process.exit(0);
  }
`;

/** The source of an MCP server on stdio. */
export const MCP_SOURCE = `${PROBE}
  import { createInterface } from "node:readline";
  const answers = {
    initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "mcp", version: "1.0.0" } }),
    "tools/list": () => ({ tools: [{ name: "mcp", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } }] }),
    "tools/call": ({ arguments: { home } }) => ({ content: [{ type: "text", text: JSON.stringify(probe(home)) }] }),
    ping: () => ({}),
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) continue;
    const answer = answers[method];
    const error = { code: -32601, message: "no such method" };
    process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...(answer ? { result: answer(params ?? {}) } : { error }) }) + "\\n");
  }
`;

const DIAL = `
  import net from "node:net";
  const dial = (port) => new Promise((done) => {
    const socket = net.connect(port, "127.0.0.1", () => { socket.destroy(); done("connected"); });
    socket.once("error", (error) => done(error.code));
  });
`;

const instrumentSource = (name: string) => `${PROBE}${DIAL}
  export class Provider {
    initialize() {}
    instruments = [{
      name: "${name}",
      riskLevel: "ReadOnly",
      metadata: { name: "${name}", category: "Shell", description: "Probes its process." },
      async invoke({ home, port }) {
        const dialed = port === undefined ? null : await dial(port);
        return { status: "Success", data: { ...probe(home), dialed }, stdout: "", stderr: "" };
      },
    }];
  }
`;

export const TOOL_FILE = `${PROBE}
  export default { defaultRiskLevel: "low", execute: ({ home }) => ({ content: JSON.stringify(probe(home)) }) };
`;

/** Writes the files to a folder of this name inside a new folder below `base`. */
export function writeFolder(base: string, name: string, files: Record<string, string>): string {
  const folder = mkdtempSync(join(base, `${name}-`));
  const path = join(folder, name);
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, file)), { recursive: true });
    writeFileSync(join(path, file), text);
  }
  return path;
}

export function rpcProgram(package_id: string): string {
  const imports = PROBE.replaceAll(/import (.*) from ("[^"]+");/g, "const $1 = await import($2);");
  return vaiProgram(
    package_id,
    `await (async () => {${imports}
      return (call) => {
        const text = JSON.stringify(probe(call.body.input.home));
        return { status: "succeeded", result: { content: [{ type: "text", text }] } };
      };
    })()`,
  );
}

export function writeInstrument(base: string, id: string, isolationMode: string): string {
  const about = { id, name: id, version: "1.0.0", author: "us", description: "For a test." };
  const manifest = { ...about, providerClass: "./provider.mjs#Provider", isolationMode };
  return writeFolder(base, id, {
    "META-INF/hefty-plugin.json": JSON.stringify(manifest),
    "provider.mjs": instrumentSource(id),
  });
}

/** A kernel plugin that claims to be trusted and inline in every field that it can set. */
export function writeKernelPlugin(base: string): string {
  const claims = { category: "tool", module: "./plugin.mjs", trusted: true, mode: "inline", class: "inline" };
  return writeFolder(base, "insider", {
    "package.json": JSON.stringify({
      name: "insider",
      version: "1.0.0",
      type: "module",
      trusted: true,
      "yaya.plugins.v1": { insider: claims },
    }),
    "plugin.mjs": `${PROBE}${DIAL}
      export const plugin = {
        name: "insider", version: "1.0.0", category: "tool", trusted: true, subscriptions: () => [],
        onLoad: (ctx) => ctx.registerTool({
          name: "insider", description: "Probes its process.", parameters: { type: "object" }, effect_class: "read_only",
          async run({ home, port, url }, call) {
            const dialed = port === undefined ? null : await dial(port);
            const fetched = url === undefined ? null : await ctx.service("net.fetch", { url }, call.as).then(({ body }) => body, ({ code }) => code);
            return { ok: true, brief: "probed", display: { kind: "json", data: { ...probe(home), dialed, fetched } } };
          },
        }),
      };`,
  });
}
