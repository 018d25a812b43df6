/**
 * One process of npm. Loading npm takes as long as a small installation, so a process can be started ahead of its
 * arguments: it loads the modules of npm and waits for the arguments on its standard input.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { BackplaneError, type ErrorCode } from "@backplane/contract";

export class NpmFailure extends BackplaneError {
  /** The output of npm, truncated. */
  readonly output: string;
  /** The URLs that npm tried to fetch from hosts other than the registries. */
  readonly refused: readonly string[];

  constructor(code: ErrorCode, message: string, output = "", refused: readonly string[] = []) {
    super(code, message);
    this.output = output;
    this.refused = refused;
  }
}

export interface NpmProcess {
  /** Called once at most. Returns the standard output. */
  run(args: readonly string[], timeout_ms: number, signal?: AbortSignal): Promise<string>;
  /** Ends the process, unless it has ended. */
  discard(): void;
}

const MAX_OUTPUT = 1024 * 1024;

/**
 * Loads only modules of npm that an installation needs; a version of npm that has none with this name loads its own
 * later. If the gateway exits, the input ends without arguments, and the process fails.
 */
const LOAD_AND_WAIT = `
const { createRequire, enableCompileCache } = require("node:module");
enableCompileCache?.();
const cli = process.argv[1];
const load = createRequire(cli);
for (const name of ["../lib/npm.js", "../lib/commands/install.js", "@npmcli/arborist"]) {
  try {
    load(name);
  } catch {}
}
let text = "";
process.stdin
  .setEncoding("utf8")
  .on("data", (chunk) => {
    text += chunk;
  })
  .on("end", () => {
    process.argv = [process.execPath, cli, ...JSON.parse(text)];
    load(cli);
  });
`;

interface NpmEnvironment {
  cwd: string;
  env: Record<string, string>;
}

/** `command` is the program of npm, or Node and a file. */
export function runNpm(
  [program, ...before]: readonly string[],
  args: readonly string[],
  where: NpmEnvironment,
  timeout_ms: number,
): Promise<string> {
  return new StartedNpm(program!, [...before, ...args], where).finish(timeout_ms);
}

/** Only a file for Node can be started ahead of its arguments. */
export function prepareNpm(command: readonly string[], where: NpmEnvironment): NpmProcess {
  const [program, file] = command as [string, string | undefined];
  let started = file === undefined ? null : new StartedNpm(program, ["-e", LOAD_AND_WAIT, file], where);
  return {
    run(args, timeout_ms, signal) {
      if (signal?.aborted) {
        started?.kill();
        return Promise.reject(new BackplaneError("request.cancelled"));
      }
      started?.send(JSON.stringify(args));
      started ??= new StartedNpm(program, args, where);
      return started.finish(timeout_ms, signal);
    },
    discard: () => started?.kill(),
  };
}

class StartedNpm {
  readonly #child: ChildProcess;
  readonly #out: () => string;
  readonly #err: () => string;
  /** An error if it could not be started, else its exit code. Never rejects. */
  readonly #ended: Promise<Error | number | null>;

  constructor(program: string, args: readonly string[], { cwd, env }: NpmEnvironment) {
    const child = spawn(program, args, {
      cwd,
      env,
      shell: false,
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child = child;
    this.#out = collect(child.stdout);
    this.#err = collect(child.stderr);
    // A process that has exited does not read its arguments; its exit is reported.
    child.stdin.on("error", () => {});
    this.#ended = new Promise((resolve) => {
      child.once("error", resolve);
      child.once("close", resolve);
    });
  }

  send(text: string): void {
    this.#child.stdin?.write(text);
  }

  kill(): void {
    const { pid, exitCode, signalCode } = this.#child;
    if (pid !== undefined && exitCode === null && signalCode === null) killGroup(pid);
  }

  async finish(timeout_ms: number, signal?: AbortSignal): Promise<string> {
    this.#child.stdin?.end();
    let timed_out = false;
    const kill = () => this.kill();
    const timer = setTimeout(() => {
      timed_out = true;
      kill();
    }, timeout_ms);
    signal?.addEventListener("abort", kill);
    const ended = await this.#ended;
    clearTimeout(timer);
    signal?.removeEventListener("abort", kill);
    if (ended === 0) return this.#out();
    if (ended instanceof Error)
      throw new NpmFailure("plugin.install_failed", `npm could not be started: ${ended.message}`);
    if (signal?.aborted) throw new BackplaneError("request.cancelled");
    const output = this.#err() || this.#out();
    const message = timed_out
      ? `npm did not finish within ${timeout_ms} ms.`
      : `npm failed: ${messageOf(output)}`;
    throw new NpmFailure("plugin.install_failed", message, output);
  }
}

function collect(stream: NodeJS.ReadableStream): () => string {
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => {
    if (text.length < MAX_OUTPUT) text += chunk;
  });
  return () => text;
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The process has already ended.
  }
}

/** The error lines of npm without prefix, codes and the path of its log file. */
function messageOf(text: string): string {
  const lines = text
    .split("\n")
    .map((line) => line.replace(/^npm (?:error|ERR!) ?/, "").trim())
    .filter(
      (line) => line !== "" && !/^(?:code|errno|syscall|path|A complete log of this run|\d{4}-)/.test(line),
    );
  const message = lines.slice(0, 4).join(" ");
  return message === "" ? "it gave no reason" : message.slice(0, 500);
}
