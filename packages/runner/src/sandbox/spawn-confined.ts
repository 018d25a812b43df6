/**
 * Starts and kills one process in a sandbox. The process must be spawned from the main thread, because the kernel ties
 * the child's lifetime to the thread. The environment is empty, so that no variable of the gateway is in the memory of
 * PID 1 and no LD_PRELOAD takes effect outside the sandbox. The process gets only the descriptors it needs. Through the
 * last one, Node's IPC channel, sandbox-init passes listeners before the plugin starts.
 */
import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import type { Duplex, Readable } from "node:stream";
import { BackplaneError } from "@backplane/contract";
import { childrenOf } from "../procfs/children-of.ts";
import { keepOutput } from "../programs/keep-output.ts";
import type { PrivateCopies } from "../programs/private-copies.ts";
import { ControlChannel } from "./control-channel.ts";

export interface SandboxTools {
  /** The private copy of sandbox-init. */
  init: string;
  /** The system's bwrap, if it creates the sandboxes. */
  bwrap: string | null;
  /** Descriptor of the system-call filter. */
  filter: number;
  copies: PrivateCopies;
}

export interface SpawnedProcess {
  /**
   * Its standard streams are those of the plugin; its pid is that of the outer process, which exits after the
   * sandbox.
   */
  child: ChildProcessWithoutNullStreams;
  pid: number;
  control: ControlChannel;
  /** Error output of sandbox-init and bwrap, for a failed start. */
  errorOutput(): string;
  kill(): void;
  /** Sets whether the process keeps the gateway alive; a prepared one does not. */
  keepAlive(on: boolean): void;
}

const FD = { control: 3, filter: 4, stdin: 5, stdout: 6, stderr: 7 } as const;
const OUTER_GRACE_MS = 500;
const MAX_ERROR_CHARS = 4_096;

/** The process waits for commands on the control channel. */
export function spawnConfined(
  command: readonly string[],
  tools: Pick<SandboxTools, "filter" | "copies">,
): SpawnedProcess {
  const [program, ...args] = command as [string, ...string[]];
  const own_programs = [program];
  tools.copies.verify(own_programs);
  // A new open file description per spawn, because a shared one would share its offset.
  const filter = openSync(`/proc/self/fd/${tools.filter}`, "r");
  let child: ChildProcess;
  try {
    child = spawn(program, args, {
      cwd: "/",
      env: {},
      detached: true,
      shell: false,
      stdio: ["ignore", "ignore", "pipe", "pipe", filter, "pipe", "pipe", "pipe", "ipc"],
    });
  } finally {
    closeSync(filter);
  }
  // Attached first, so that the error event of a failed spawn is handled.
  child.on("error", () => {});
  if (child.pid === undefined) {
    throw new BackplaneError("sandbox.unavailable", `${program} could not be started.`);
  }
  const outer = child.pid;
  // When spawn returns, the program has been executed, so it was read between the two checks.
  if (!tools.copies.verify(own_programs)) {
    sendKill(-outer);
    throw ownFilesChanged();
  }
  for (const stream of child.stdio) stream?.on("error", () => {});
  let errors = "";
  child.stderr!.on("data", (chunk: Buffer) => {
    if (errors.length < MAX_ERROR_CHARS) errors += chunk.toString("utf8");
  });
  const control = new ControlChannel(stdio(child, FD.control));
  return {
    child: withStreams(child),
    pid: outer,
    control,
    errorOutput: () => errors.trim(),
    kill: () => killBoth(child, outer, control),
    keepAlive: (on) => {
      for (const handle of [child, child.channel, ...(child.stdio as unknown as (Referenceable | null)[])]) {
        if (on) handle?.ref();
        else handle?.unref();
      }
    },
  };
}

export function ownFilesChanged(): BackplaneError {
  return new BackplaneError(
    "sandbox.unavailable",
    "Another process changed the gateway's own sandbox files while a plugin was started, so the start was stopped.",
    { fix: "Call again: the files were restored. Find out what writes to the gateway's home folder." },
  );
}

interface Referenceable {
  ref(): void;
  unref(): void;
}

/**
 * Kills the inner process, and with it the whole namespace. The outer process exits on its own or is killed after a
 * delay.
 */
function killBoth(child: ChildProcess, outer: number, control: ControlChannel): void {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const inner = childrenOf(outer);
  for (const pid of inner) sendKill(pid);
  control.close();
  if (inner.length === 0) {
    sendKill(-outer);
    return;
  }
  const timer = setTimeout(() => sendKill(-outer), OUTER_GRACE_MS);
  child.once("exit", () => clearTimeout(timer));
}

function sendKill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has already exited.
  }
}

/** The rest of the runner uses stdin, stdout and stderr of a child; here they are other descriptors. */
function withStreams(child: ChildProcess): ChildProcessWithoutNullStreams {
  const [stdin, stdout, stderr] = [FD.stdin, FD.stdout, FD.stderr].map((fd) => stdio(child, fd)) as [
    Duplex,
    Duplex,
    Duplex,
  ];
  keepOutput(stdout);
  keepOutput(stderr);
  return Object.assign(child, { stdin, stdout, stderr }) as unknown as ChildProcessWithoutNullStreams;
}

function stdio(child: ChildProcess, fd: number): Duplex {
  return (child.stdio as unknown as (Duplex & Readable)[])[fd]!;
}
