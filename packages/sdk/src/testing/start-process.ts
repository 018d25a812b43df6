/**
 * Runs a plugin as the gateway does: a separate process, no shell, and only the environment that is named
 * here.
 */
import { spawn } from "node:child_process";
import { stdioTransport } from "@backplane/wire";
import { connectPlugin, type PluginRun } from "./plugin-run.ts";

export interface ProcessRun extends PluginRun {
  readonly pid: number;
  /** Everything that the plugin has written to stderr. */
  readonly stderr: () => string;
  /** Resolves when the process has exited. */
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Closes the host's side without a shutdown, like a host that crashed. */
  hangUp(): void;
}

export interface ProcessOptions {
  cwd: string;
  env?: Record<string, string>;
}

/** `entrypoint` as in vai-plugin.toml; `node` means the Node that runs the test. */
export async function startPlugin(
  entrypoint: readonly string[],
  identity: { package_id: string; version: string },
  options: ProcessOptions,
): Promise<ProcessRun> {
  const [program = "", ...parameters] = entrypoint;
  const child = spawn(program === "node" ? process.execPath : program, parameters, {
    cwd: options.cwd,
    env: { PATH: "/usr/local/bin:/usr/bin:/bin", ...options.env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let printed = "";
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    printed += chunk;
  });
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
  // The handshake reports a failed start; without this line the failure would also be an unhandled rejection.
  ended.catch(() => {});
  try {
    const run = await connectPlugin(stdioTransport(child.stdout, child.stdin), identity);
    return {
      ...run,
      get inFlight() {
        return run.inFlight;
      },
      pid: child.pid ?? 0,
      stderr: () => printed,
      ended,
      hangUp: () => child.stdin.end(),
    };
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
}
