/** Servers under test in their own processes, with CPU time and memory read from /proc. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export interface Server {
  url: string;
  pid: number;
  token: string | null;
  /** Milliseconds from spawn to the ready line on stdout. */
  ready_ms: number;
  stop(): Promise<void>;
}

export const CLI = fileURLToPath(new URL("../../../packages/cli/dist/main.js", import.meta.url));
const BARE = fileURLToPath(new URL("../children/bare-fastify.mjs", import.meta.url));
const CHAT_MODEL = fileURLToPath(new URL("../children/chat-model.mjs", import.meta.url));
const RECORDING_PROXY = fileURLToPath(new URL("../children/recording-proxy.mjs", import.meta.url));
const BARE_MCP = fileURLToPath(new URL("../children/bare-mcp.mjs", import.meta.url));

/** Starts the gateway with a new home. `config` is the content of its backplane.toml. */
export async function startGateway(extra_env: Record<string, string> = {}, config = ""): Promise<Server> {
  const home = mkdtempSync(join(tmpdir(), "backplane-bench-home-"));
  writeFileSync(join(home, "backplane.toml"), config);
  const env = { ...process.env, BACKPLANE_HOME: home, BACKPLANE_LOG_LEVEL: "error", ...extra_env };
  const server = await start([CLI, "up", "--json", "--port", "0", "--no-open"], env);
  return {
    ...server,
    token: readFileSync(join(home, "admin.token"), "utf8").trim(),
    async stop() {
      await server.stop();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

export const startBareFastify = () => start([BARE], process.env);
export const startChatModel = () => start([CHAT_MODEL], process.env);
export const startRecordingProxy = (model_url: string, record_file: string) =>
  start([RECORDING_PROXY, model_url, record_file], process.env);
export const startBareMcp = (program: string) => start([BARE_MCP, program], process.env);

async function start(args: string[], env: NodeJS.ProcessEnv): Promise<Server> {
  const from = performance.now();
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  const line = await readFirstLine(child);
  const ready_ms = performance.now() - from;
  const { url } = JSON.parse(line) as { url: string };
  return {
    url,
    pid: child.pid!,
    token: null,
    ready_ms,
    stop: () => stopChild(child),
  };
}

const GRACE_MS = 15_000;

/** Sends SIGTERM, and SIGKILL if the process does not exit. */
export function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
    child.once("exit", () => {
      clearTimeout(timer);
      resolve();
    });
    child.kill("SIGTERM");
  });
}

async function readFirstLine(child: ChildProcess): Promise<string> {
  let text = "";
  for await (const chunk of child.stdout!) {
    text += chunk;
    const end = text.indexOf("\n");
    if (end >= 0) return text.slice(0, end);
  }
  throw new Error("the server exited before it was ready");
}

/**
 * CPU time of all threads of the process in µs, from the scheduler's nanosecond counters: the ticks of /proc/PID/stat
 * miss most of the work of a server that runs in short bursts.
 */
export function readCpuMicros(pid: number): number {
  let nanos = 0;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    nanos += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]);
  }
  return nanos / 1_000;
}

export function readResidentBytes(pid: number): number {
  const match = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(match![1]) * 1024;
}
