/**
 * Makes calls while another process keeps changing the installed files (integrity.exec). Every plugin answers with a word
 * from each file that it uses: its program, and depending on its kind a module beside it, and a data file and a module
 * that it reads only during a call. An answer with the word CHANGED! means that unverified bytes were run or read.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { startTestGateway, type TestGateway } from "../gateway/gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "./plugin-folder.ts";
import { writeFolder } from "./probe-plugins.ts";

const handshakeLine = (id: string) =>
  JSON.stringify({
    type: "handshake",
    manifest: {
      plugin_id: id,
      plugin_version: "1.0.0",
      protocol_version: "rterm.plugin.v1",
      exposed_tools: [id.slice(5)],
    },
  });

const SHELL = (id: string) => `#!/bin/sh
own=ORIGINAL
. ./part.sh
read -r line
printf '%s\\n' '${handshakeLine(id)}'
read -r line
id=$(printf '%s' "$line" | sed 's/.*"request_id":"\\([^"]*\\)".*/\\1/')
printf '{"type":"response","request_id":"%s","status":"ok","output":"%s"}\\n' "$id" "$own $part $(cat data.txt)"
`;

const PYTHON = (id: string) => `import json, sys
from part import part
own = "ORIGINAL"
sys.stdin.readline()
print('${handshakeLine(id)}', flush=True)
request = json.loads(sys.stdin.readline())
from late import late
words = " ".join([own, part, late, open("data.txt").read()])
print(json.dumps({"type": "response", "request_id": request["request_id"], "status": "ok", "output": words}), flush=True)
`;

const NODE = (id: string) => `import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { part } from "./part.mjs";
const own = "ORIGINAL";
const say = (value) => process.stdout.write(JSON.stringify(value) + "\\n");
for await (const line of createInterface({ input: process.stdin })) {
  const { request_id } = JSON.parse(line);
  if (request_id === undefined) { say(${handshakeLine(id)}); continue; }
  const { late } = await import("./late.mjs");
  say({ type: "response", request_id, status: "ok", output: [own, part, late, readFileSync("data.txt", "utf8")].join(" ") });
  process.exit(0);
}
`;

/** A process that serves many calls reads its files again with every call. */
const RESIDENT = `await (async () => {
  const { readFileSync } = await import("node:fs");
  const own = "ORIGINAL";
  let calls = 0;
  return async () => {
    const { late } = await import(\`\${process.cwd()}/late.mjs?\${calls++}\`);
    const text = [own, late, readFileSync("data.txt", "utf8")].join(" ");
    return { status: "succeeded", result: { content: [{ type: "text", text }] } };
  };
})()`;

const TOOL = `import { readFileSync } from "node:fs";
import { part } from "../part.mjs";
export default { defaultRiskLevel: "low", execute: () => ({ content: ["ORIGINAL", part].join(" ") }) };
`;

const PARTS = {
  "data.txt": "ORIGINAL",
  "part.sh": "part=ORIGINAL\n",
  "part.mjs": 'export const part = "ORIGINAL";\n',
  "late.mjs": 'export const late = "ORIGINAL";\n',
  "part.py": 'part = "ORIGINAL"\n',
  "late.py": 'late = "ORIGINAL"\n',
};

export interface SwapCount {
  /** Changed files that were put in place. */
  swaps: number;
  calls: number;
  /** Successful answers without the word CHANGED!. */
  intact: number;
  /** Refused with package.corrupt. */
  refused: number;
  /** Answers with the word CHANGED!, after the name of their export; must be empty. */
  changed: string[];
  /** All other outcomes. */
  failed: string[];
}

export interface SwapGateway {
  gateway: TestGateway;
  exports: string[];
}

/** Ends only a call that hangs: three calls and the attacker share the machine with other tests. */
const CALL_MS = 300_000;

type SwapKind = "sh" | "py" | "js" | "rpc" | "tool";

export interface SwapOptions {
  sandbox: boolean;
  kinds: readonly SwapKind[];
}

/** A gateway with a plugin of each requested kind and isolation class, each called once. Tool files need the sandbox. */
export async function startSwapGateway(options: SwapOptions): Promise<SwapGateway> {
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  // The attacker uses a whole processor.
  writeFileSync(
    join(home, "backplane.toml"),
    `[sandbox]\nenabled = ${options.sandbox}\n[timeouts]\nside_handshake_ms = 60000\nhello_ms = 60000\n`,
  );
  const gateway = await startTestGateway({ home });
  const exports: string[] = [];
  const add = async (name: string, entrypoint: string[], program: [string, string], policy: object) => {
    const spec = {
      package_id: `acme/${name}`,
      entrypoint,
      exports: [{ id: name, default_timeout_ms: CALL_MS }],
    };
    const files = { ...PARTS, [program[0]]: program[1] };
    const protocol = program[0].startsWith("rpc") ? "vai.rpc.v1" : "rterm.plugin.v1";
    await installAndBind(gateway, writePluginFolder({ ...spec, protocol, files }), [name], { ...policy });
    exports.push(name);
  };
  const programs = {
    sh: { entrypoint: ["./run.sh"], file: "run.sh", text: SHELL },
    py: { entrypoint: ["python3", "./run.py"], file: "run.py", text: PYTHON },
    js: { entrypoint: ["node", "./run.mjs"], file: "run.mjs", text: NODE },
    rpc: {
      entrypoint: ["node", "./rpc.mjs"],
      file: "rpc.mjs",
      text: (id: string) => vaiProgram(id, RESIDENT),
    },
  };
  for (const level of options.sandbox ? ["isolated", "worker"] : ["worker"]) {
    for (const kind of options.kinds) {
      if (kind === "tool") continue;
      const { entrypoint, file, text } = programs[kind];
      const name = `${kind}_${level}`;
      await add(name, entrypoint, [file, text(`acme/${name}`)], { class: level });
    }
  }
  if (options.sandbox && options.kinds.includes("tool")) {
    const base = mkdtempSync(join(tmpdir(), "backplane-swap-"));
    const path = writeFolder(base, "swapped", {
      "tools/swapped_tool.js": TOOL,
      "part.mjs": PARTS["part.mjs"],
    });
    const installed = await gateway.cli("plugin", "install", path);
    if (installed.code !== 0) throw new Error(installed.stderr);
    exports.push("swapped_tool");
  }
  for (const name of exports) {
    const call = await callOnce(gateway, name);
    if (call.status !== "succeeded") throw new Error(`${name}: ${JSON.stringify(call)}`);
  }
  return { gateway, exports };
}

/** Calls all exports in turn, several concurrently, while another process changes their installed files. */
export async function callWhileSwapping(
  { gateway, exports }: SwapGateway,
  calls: number,
): Promise<SwapCount> {
  const count: SwapCount = { swaps: 0, calls: 0, intact: 0, refused: 0, changed: [], failed: [] };
  const attacker = startAttacker(gateway);
  let next = 0;
  const worker = async () => {
    while (next < calls) {
      const name = exports[next++ % exports.length]!;
      const call = await callOnce(gateway, name);
      count.calls++;
      const text = JSON.stringify(call.result ?? call.error ?? null);
      if (call.error?.code === "package.corrupt") count.refused++;
      else if (text.includes("CHANGED!")) count.changed.push(`${name}: ${text}`);
      else if (call.status === "succeeded" && text.includes("ORIGINAL")) count.intact++;
      else count.failed.push(`${name}: ${text}`);
    }
  };
  await Promise.all([worker(), worker(), worker()]);
  count.swaps = await attacker.end();
  return count;
}

interface CallRecord {
  id: string;
  status: string;
  result?: unknown;
  error?: { code: string } | null;
}

async function callOnce(gateway: TestGateway, export_id: string): Promise<CallRecord> {
  const path = "/v1/invocations?wait=60";
  let { body } = await gateway.http<CallRecord>("POST", path, { export_id, input: {} });
  while (body.status === "running") {
    await new Promise((done) => setTimeout(done, 100));
    ({ body } = await gateway.http<CallRecord>("GET", `/v1/invocations/${body.id}`));
  }
  return body;
}

function startAttacker({ home }: TestGateway): { end(): Promise<number> } {
  const store = join(home, "blobs/sha256");
  const trees = readdirSync(store).map((name) => join(store, name, "tree"));
  const program = resolve("test/support/plugins/swap-attacker.mjs");
  const child = spawn(process.execPath, [program, ...trees], { stdio: ["pipe", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (chunk) => (text += chunk));
  const closed = new Promise<void>((done) => child.once("close", () => done()));
  return {
    async end() {
      child.stdin.end();
      await closed;
      return Number(text);
    },
  };
}
