/** Progress of installations and launches, and what Ctrl-C leaves behind, with the built gateway and command. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { InstallationSchema, ProgressEventSchema } from "@backplane/contract/schema";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { readStream, type StreamItem } from "../../../packages/api/test/support/read-stream.ts";
import { type Registry, startRegistry } from "../../../packages/supply/test/support/npm-registry.ts";
import { cleanEnvironment, startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { MCP_PROGRAM } from "../../support/mcp/mcp-server.ts";
import { verifies } from "../../support/verifies.ts";

const CLI = resolve("packages/cli/dist/main.js");
/** Programs that never answer. The tests search the running processes for their names. */
const SILENT_SERVER = "silent-server.mjs";
const SILENT_TOOL = "silent-tool.mjs";
const ERASE = "\r\u001b[2K";
const SILENT_CODE = "setInterval(() => {}, 1000);";

let gateway: TestGateway;
let registry: Registry;
let folder: string;
let temporary: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-progress-"));
  temporary = join(folder, "tmp");
  mkdirSync(temporary);
  registry = await startRegistry();
  publish("acme-server", "mcp.mjs", readFileSync(MCP_PROGRAM, "utf8"));
  publish("acme-silent", SILENT_SERVER, SILENT_CODE);
  const env = {
    NPM_CONFIG_REGISTRY: registry.url,
    NPM_CONFIG_CACHE: join(folder, "cache"),
    NPM_CONFIG_FETCH_RETRIES: "0",
    TMPDIR: temporary,
  };
  gateway = await startTestGateway({ env });
});

afterEach(() => {
  registry.stalls = null;
});

afterAll(async () => {
  await gateway?.dispose();
  await registry?.close();
  rmSync(folder, { recursive: true, force: true });
});

function publish(name: string, program: string, code: string): void {
  const dir = join(folder, name, "package");
  mkdirSync(dir, { recursive: true });
  const manifest = { name, version: "1.0.0", type: "module", bin: program };
  writeFileSync(join(dir, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(dir, program), code);
  const archive = execFileSync("tar", ["czf", "-", "-C", join(dir, ".."), "package"]);
  registry.publish(name, "1.0.0", archive, manifest);
}

function install(spec: string, more: { each?: (item: StreamItem) => void; signal?: AbortSignal } = {}) {
  return readStream(`${gateway.url}/v1/plugin-installations`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${gateway.token}`,
      accept: "text/event-stream",
      "content-type": "application/json",
    },
    body: JSON.stringify({ source: { kind: "npm", spec } }),
    ...more,
  });
}

interface StartedCommand {
  child: ChildProcess;
  stderr: () => string;
  exited: Promise<number | null>;
}

function startCommand(...args: string[]): StartedCommand {
  const env = cleanEnvironment({ BACKPLANE_HOME: gateway.home });
  const child = spawn(process.execPath, [CLI, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  child.stderr.on("data", (chunk) => {
    text += chunk;
  });
  const exited = once(child, "close").then(([code]) => code as number | null);
  return { child, stderr: () => text, exited };
}

/** Everything that an installation creates. */
async function findRemains() {
  const list = async (path: string) =>
    (await gateway.http<{ items: unknown[] }>("GET", path)).body.items.length;
  const blobs = join(gateway.home, "blobs");
  return {
    packages: await list("/v1/plugin-packages"),
    bindings: await list("/v1/plugin-bindings"),
    trees: readdirSync(join(blobs, "sha256")).length,
    staged: readdirSync(join(blobs, "tmp")),
    temporary: readdirSync(temporary).filter((name) => /^backplane-(?:npm|inspect)/.test(name)),
    // npm replaces its command line with its title.
    npm: processesWith("npm").filter((pid) => parentOf(pid) === gateway.pid),
  };
}

function processesWith(text: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => readProc(pid, "cmdline").includes(text));
}

function parentOf(pid: number): number {
  const stat = readProc(pid, "stat");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    // The process has exited.
    return "";
  }
}

const NO_REMAINS = { packages: 0, bindings: 0, trees: 0, staged: [], temporary: [], npm: [] };

const stages = [
  { name: "the package is read", stalls: /\/acme-server\/-\//, args: [], shown: "Reading acme-server" },
  { name: "the dependencies are resolved", stalls: /^\/acme-server$/, args: ["--", "x"], shown: "Resolving" },
  {
    name: "the package is downloaded",
    stalls: /\/acme-server\/-\//,
    args: ["--", "x"],
    shown: "Downloading 1 package",
  },
];

for (const { name, stalls, args, shown } of stages) {
  verifies("run.progress", `Ctrl-C while ${name} stops npm in the gateway and leaves nothing`, async () => {
    registry.stalls = stalls;
    rmSync(join(folder, "cache"), { recursive: true, force: true });
    const command = startCommand("plugin", "install", "npm:acme-server", ...args);
    await expect.poll(command.stderr).toContain(shown);
    // A second npm process may still be reading npm's settings.
    await expect.poll(async () => (await findRemains()).npm).toHaveLength(1);
    command.child.kill("SIGINT");
    expect(await command.exited).toBe(130);
    expect(command.stderr()).toContain("error[request.cancelled]");
    expect(command.stderr()).toContain("nothing was installed");
    await expect.poll(findRemains).toEqual(NO_REMAINS);
  });
}

test("a client that disconnects during its upload leaves nothing", async () => {
  const upload = request(`${gateway.url}/v1/plugin-installations`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${gateway.token}`,
      accept: "text/event-stream",
      "content-type": "application/x-tar",
    },
  });
  upload.on("error", () => {});
  const [response] = (await new Promise((done) => {
    upload.once("response", (incoming) => done([incoming]));
    upload.write(Buffer.from("PK\x03\x04 the rest never comes"));
  })) as [NodeJS.ReadableStream];
  await once(response, "data");
  await expect.poll(async () => (await findRemains()).staged).not.toEqual([]);
  upload.destroy();
  await expect.poll(findRemains).toEqual(NO_REMAINS);
});

verifies(
  "run.progress",
  "streams the steps of an installation, then the body of the JSON response",
  async () => {
    const items = await install("acme-server");
    const progress = items.filter(({ event }) => event === "progress").map(({ data }) => JSON.parse(data));
    for (const event of progress) expect(ProgressEventSchema.parse(event)).toEqual(event);
    const steps = [...new Set(progress.map(({ step }) => step as string))];
    expect(steps).toEqual([
      "read",
      "resolve",
      "verify",
      "download",
      "check",
      "unpack",
      "store",
      "prepare",
      "launch",
      "initialize",
    ]);
    const bytes = progress.filter(({ step, unit }) => step === "download" && unit === "bytes");
    expect(bytes.every(({ done }) => done > 0)).toBe(true);
    expect(items.at(-1)?.event).toBe("result");
    const result = JSON.parse(items.at(-1)!.data);
    expect(InstallationSchema.parse(result)).toMatchObject({ bindings: [{ change: "created" }] });
    const again = await gateway.http("POST", "/v1/plugin-installations", {
      source: { kind: "npm", spec: "acme-server" },
    });
    expect(again.status).toBe(200);
    expect(again.headers.get("content-type")).toContain("application/json");
    expect(again.body).toMatchObject({
      kind: result.kind,
      packages: [{ package: result.packages[0].package }],
    });
  },
);

test("the stream of a failed installation ends with the error envelope", async () => {
  const items = await install("acme-missing");
  expect(items.at(-1)).toMatchObject({ event: "error" });
  const { error } = JSON.parse(items.at(-1)!.data);
  expect(error).toMatchObject({ code: "plugin.install_failed", request_id: expect.any(String) });
  expect(items.filter(({ event }) => event === "result")).toEqual([]);
});

verifies(
  "run.progress",
  "Ctrl-C while a new server starts keeps the stored rows and stops its process",
  async () => {
    const command = startCommand("plugin", "install", "npm:acme-silent", "--", "x");
    await expect.poll(command.stderr).toContain("Waiting for npm/acme-silent to answer");
    expect(processesWith(SILENT_SERVER)).not.toEqual([]);
    command.child.kill("SIGINT");
    expect(await command.exited).toBe(130);
    expect(command.stderr()).toContain("may already be installed");
    await expect.poll(() => processesWith(SILENT_SERVER)).toEqual([]);
    const { stdout } = await gateway.cli("plugin", "list", "--json");
    expect(stdout).toContain("npm/acme-silent");
  },
);

verifies(
  "run.progress",
  "Ctrl-C while a call waits for its server cancels the call and stops the launch",
  async () => {
    const dir = join(folder, "tool");
    mkdirSync(dir);
    writeFileSync(join(dir, SILENT_TOOL), SILENT_CODE);
    writeFileSync(
      join(dir, "vai-plugin.toml"),
      [
        'api_version = "vai.plugin.v1"',
        'package_id = "acme/mute"',
        'version = "1.0.0"',
        'name = "mute"',
        "[runtime]",
        'protocol = "vai.rpc.v1"',
        `entrypoint = ["node", "./${SILENT_TOOL}"]`,
        "[[exports]]",
        'id = "mute"',
        'kind = "tool"',
        "[exports.tool]",
        'effect_class = "read_only"',
      ].join("\n"),
    );
    const installed = await gateway.cli("plugin", "install", dir, "--bind", "--class", "worker");
    expect(installed.code, installed.stderr).toBe(0);
    const command = startCommand("invoke", "mute");
    await expect.poll(() => processesWith(SILENT_TOOL)).not.toEqual([]);
    await expect.poll(command.stderr).toContain("Waiting for the result of");
    command.child.kill("SIGINT");
    expect(await command.exited).toBe(130);
    await expect.poll(() => processesWith(SILENT_TOOL)).toEqual([]);
  },
);

verifies(
  "run.progress",
  "redraws one line on a terminal and prints nothing with --quiet or --json",
  async () => {
    registry.stalls = /^\/acme-slow$/;
    const args = ["plugin", "install", "npm:acme-slow", "--", "x"];
    const terminal = startInTerminal(args);
    await expect.poll(terminal.stderr).toContain(`${ERASE}Resolving the dependencies of acme-slow`);
    terminal.child.stdin!.write("\u0003");
    expect(await terminal.exited).toBe(130);
    const status_output = terminal.stderr().split("error[request.cancelled]")[0]!;
    expect(status_output.endsWith(ERASE)).toBe(true);
    expect(status_output).toMatch(/ \(\d+ s\)/);
    // Without the carriage returns of the line discipline, the status never starts a new line.
    expect(status_output.replaceAll("\r\n", "\n").match(/\n/g)).toBeNull();
    for (const flag of ["--quiet", "--json"]) {
      const requests_before = registry.requests.length;
      const silent = startCommand(...args.slice(0, 3), flag, ...args.slice(3));
      await expect.poll(() => registry.requests.length).toBeGreaterThan(requests_before);
      await new Promise((done) => setTimeout(done, 2_500));
      expect(silent.stderr()).toBe("");
      silent.child.kill("SIGINT");
      expect(await silent.exited).toBe(130);
    }
  },
);

/** Runs the command with a pseudo-terminal, whose output is both streams. */
function startInTerminal(args: readonly string[]): StartedCommand {
  const program = `
import os, pty, sys
code = pty.spawn(sys.argv[1:])
sys.exit(os.waitstatus_to_exitcode(code))
`;
  const env = cleanEnvironment({ BACKPLANE_HOME: gateway.home, TERM: "xterm" });
  const child = spawn("python3", ["-c", program, process.execPath, CLI, ...args], { env, stdio: "pipe" });
  let text = "";
  child.stdout.on("data", (chunk) => {
    text += chunk;
  });
  const exited = once(child, "close").then(([code]) => code as number | null);
  return { child, stderr: () => text, exited };
}
