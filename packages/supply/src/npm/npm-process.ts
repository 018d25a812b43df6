/**
 * One process of npm. Loading npm takes as long as a small installation, so a process can be started ahead of its
 * arguments: it loads the modules of npm and waits for the arguments on its standard input. An installation can be
 * paused between resolving the dependency tree and fetching its files, so that one process does both.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { BackplaneError, type ErrorCode } from "@backplane/contract";
import { programDiskFault } from "../files/program-disk-fault.ts";

export class NpmFailure extends BackplaneError {
  /** The output of npm, truncated. */
  readonly output: string;
  /** The URLs that npm tried to fetch from hosts other than the registries. */
  readonly refused: readonly string[];
  /** The lock of the tree that npm could not resolve completely; null if it is not known. */
  readonly unresolved: unknown;

  constructor(
    code: ErrorCode,
    message: string,
    {
      output = "",
      refused = [],
      unresolved = null,
    }: { output?: string; refused?: readonly string[]; unresolved?: unknown } = {},
  ) {
    super(code, message);
    this.output = output;
    this.refused = refused;
    this.unresolved = unresolved;
  }
}

/** Checks the content of the lock file before a file of the tree is fetched. If it throws, npm is killed. */
export type VetTree = (lock: unknown) => Promise<void>;

interface NpmRunOptions {
  timeout_ms: number;
  signal?: AbortSignal | undefined;
}

export interface NpmProcess {
  /** Either `run` or `install` is called, at most once. Returns the standard output. */
  run(args: readonly string[], options: NpmRunOptions): Promise<string>;
  /** Runs `npm install`. Returns false, without doing anything, if this npm cannot be paused. */
  install(args: readonly string[], vet: VetTree, options: NpmRunOptions): Promise<boolean>;
  /** Kills the process if it is still running. */
  discard(): void;
}

const MAX_OUTPUT = 1024 * 1024;
/** The exit code of a process that was told to pause and cannot. */
const CANNOT_PAUSE = 86;

/**
 * Loads only the modules of npm that an installation needs. If a version of npm lacks one of these files, npm loads its
 * own modules later. If the gateway exits, the input ends without arguments or the channel closes, and the process
 * fails.
 */
const LOAD_AND_WAIT = `
const { createRequire, enableCompileCache } = require("node:module");
enableCompileCache?.();
const cli = process.argv[1];
const load = createRequire(cli);
for (const name of ["../lib/npm.js", "../lib/commands/install.js"]) {
  try {
    load(name);
  } catch {}
}
let pauses = false;
const waitForVetting = (tree) =>
  new Promise((resolve) => {
    pauses = false;
    process.once("message", () => {
      process.removeListener("disconnect", fail);
      process.disconnect();
      resolve();
    });
    process.send({ lock: tree.meta.commit(), resolved: true });
  });
const showUnresolved = async ({ meta }) => {
  const message = { lock: meta.commit(), resolved: false };
  await new Promise((resolve) => process.send(message, resolve));
};
const fail = () => process.exit(1);
let canPause = false;
try {
  const { prototype } = load("@npmcli/arborist");
  const { buildIdealTree } = prototype;
  prototype.buildIdealTree = async function (options) {
    let tree;
    try {
      tree = await buildIdealTree.call(this, options);
    } catch (error) {
      if (pauses) await showUnresolved(this.idealTree).catch(() => {});
      throw error;
    }
    if (pauses) await waitForVetting(tree);
    return tree;
  };
  canPause = typeof buildIdealTree === "function";
} catch {}
let text = "";
process.stdin
  .setEncoding("utf8")
  .on("data", (chunk) => {
    text += chunk;
  })
  .on("end", () => {
    const { args, vetted } = JSON.parse(text);
    if (vetted && !canPause) process.exit(${CANNOT_PAUSE});
    pauses = vetted;
    if (pauses) process.on("disconnect", fail);
    else process.disconnect();
    process.argv = [process.execPath, cli, ...args];
    load(cli);
  });
`;

interface NpmEnvironment {
  cwd: string;
  env: Record<string, string>;
}

/** The command is the program of npm, or Node and a file. */
export function runNpm(
  [program, ...first_args]: readonly string[],
  args: readonly string[],
  environment: NpmEnvironment,
  timeout_ms: number,
): Promise<string> {
  return new StartedNpm(program!, [...first_args, ...args], environment).finish({ timeout_ms });
}

/** npm can be started ahead of its arguments, and be paused, only if the command is Node and a file. */
export function prepareNpm(command: readonly string[], environment: NpmEnvironment): NpmProcess {
  const [program, file] = command as [string, string | undefined];
  const started =
    file === undefined ? null : new StartedNpm(program, ["-e", LOAD_AND_WAIT, file], environment, true);
  const requireUncancelled = (signal: AbortSignal | undefined) => {
    if (!signal?.aborted) return;
    started?.kill();
    throw new BackplaneError("request.cancelled");
  };
  return {
    async run(args, options) {
      requireUncancelled(options.signal);
      started?.send({ args, vetted: false });
      return await (started ?? new StartedNpm(program, args, environment)).finish(options);
    },
    async install(args, vet, options) {
      requireUncancelled(options.signal);
      if (started === null) return false;
      started.send({ args, vetted: true });
      return await started.finishVetted(vet, options);
    },
    discard: () => started?.kill(),
  };
}

class StartedNpm {
  readonly #child: ChildProcess;
  readonly #out: () => string;
  readonly #err: () => string;
  /** An error if the process could not be started, otherwise its exit code. Never rejects. */
  readonly #exited: Promise<Error | number | null>;

  /** With `waits`, the process waits for its arguments, which are sent later. */
  constructor(program: string, args: readonly string[], { cwd, env }: NpmEnvironment, waits = false) {
    const child = spawn(program, args, {
      cwd,
      env,
      shell: false,
      detached: true,
      stdio: ["pipe", "pipe", "pipe", ...(waits ? (["ipc"] as const) : [])],
    });
    this.#child = child;
    this.#out = collect(child.stdout!);
    this.#err = collect(child.stderr!);
    // A process that has exited does not read its arguments; its exit is reported.
    child.stdin!.on("error", () => {});
    this.#exited = new Promise((resolve) => {
      child.once("error", resolve);
      child.once("close", resolve);
    });
  }

  send(message: { args: readonly string[]; vetted: boolean }): void {
    this.#child.stdin?.write(JSON.stringify(message));
  }

  kill(): void {
    const { pid, exitCode, signalCode } = this.#child;
    if (pid !== undefined && exitCode === null && signalCode === null) killGroup(pid);
  }

  async finishVetted(vet: VetTree, options: NpmRunOptions): Promise<boolean> {
    let vetted = false;
    let refusal: unknown = null;
    let unresolved: unknown = null;
    this.#child.once("message", (message) => {
      const { lock, resolved } = message as { lock: unknown; resolved: boolean };
      if (!resolved) {
        unresolved = lock;
        return;
      }
      vet(lock).then(
        () => {
          vetted = true;
          // If the process has exited, its exit is reported.
          this.#child.send("continue", () => {});
        },
        (error: unknown) => {
          refusal = error;
          this.kill();
        },
      );
    });
    try {
      await this.finish(options);
    } catch (error) {
      if (this.#child.exitCode === CANNOT_PAUSE) return false;
      if (refusal !== null) throw refusal;
      if (unresolved === null || !(error instanceof NpmFailure)) throw error;
      throw new NpmFailure(error.code, error.message, { output: error.output, unresolved });
    }
    if (!vetted)
      throw new NpmFailure(
        "plugin.install_failed",
        "npm installed packages without reporting the resolved tree.",
      );
    return true;
  }

  async finish({ timeout_ms, signal }: NpmRunOptions): Promise<string> {
    this.#child.stdin?.end();
    let timed_out = false;
    const kill = () => this.kill();
    const timer = setTimeout(() => {
      timed_out = true;
      kill();
    }, timeout_ms);
    signal?.addEventListener("abort", kill);
    const ended = await this.#exited;
    clearTimeout(timer);
    signal?.removeEventListener("abort", kill);
    if (ended === 0) return this.#out();
    if (ended instanceof Error)
      throw new NpmFailure("plugin.install_failed", `npm could not be started: ${ended.message}`);
    if (signal?.aborted) throw new BackplaneError("request.cancelled");
    const output = this.#err() || this.#out();
    const disk_fault = programDiskFault("npm", output);
    if (disk_fault !== null) throw disk_fault;
    const message = timed_out
      ? `npm did not finish within ${timeout_ms} ms.`
      : `npm failed: ${messageOf(output)}`;
    throw new NpmFailure("plugin.install_failed", message, { output });
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
    // The process has already exited.
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
  return message === "" ? "it reported no reason" : message.slice(0, 500);
}
