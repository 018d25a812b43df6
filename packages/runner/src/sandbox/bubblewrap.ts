/**
 * Starts one process in a sandbox and is the only way to end it. Spawned from the main thread: the kernel ties the
 * child's life to the thread. bwrap gets no environment at all (its own would be the sandbox's /proc/1/environ, and
 * a plugin's LD_PRELOAD would act outside), and no descriptor but those it needs; over the last, Node's own channel
 * to a child, sandbox-init hands out listeners before the plugin starts.
 */
import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import type { Duplex, Readable } from "node:stream";
import { BackplaneError } from "@backplane/contract";
import { childrenOf } from "../procfs/children-of.ts";
import type { OwnFiles } from "../programs/private-copies.ts";
import { ControlChannel } from "./control-channel.ts";

export interface Bubblewrap {
  program: string;
  /** A descriptor of the system-call filter. */
  filter: number;
  own: OwnFiles;
}

export interface Spawned {
  /** Its three streams are the plugin's; its pid is the outer process, which ends after the sandbox. */
  child: ChildProcessWithoutNullStreams;
  pid: number;
  control: ControlChannel;
  /** What bwrap and sandbox-init had to say, for the case that there was no start. */
  words(): string;
  kill(): void;
  /** Whether it keeps the gateway alive; one that only waits does not. */
  hold(held: boolean): void;
}

const FD = { control: 3, filter: 4, stdin: 5, stdout: 6, stderr: 7 } as const;
const OUTER_GRACE_MS = 500;
const MAX_WORDS = 4_096;

/** It does nothing before the control channel tells it to. */
export function spawnConfined(line: readonly string[], tools: Bubblewrap): Spawned {
  const [program, ...args] = line as [string, ...string[]];
  const ours = [program];
  tools.own.confirm(ours);
  // A fresh description per spawn: a shared one would share its offset.
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
  // Taken before anything else, so that no event of a failed spawn goes unheard.
  child.on("error", () => {});
  if (child.pid === undefined) {
    throw new BackplaneError("sandbox.unavailable", `${program} could not be started.`);
  }
  const outer = child.pid;
  // When spawn returns, the program has been executed: it was read between these two looks.
  if (!tools.own.confirm(ours)) {
    send(-outer);
    throw ownFilesChanged();
  }
  for (const stream of child.stdio) stream?.on("error", () => {});
  let words = "";
  child.stderr!.on("data", (chunk: Buffer) => {
    if (words.length < MAX_WORDS) words += chunk.toString("utf8");
  });
  const control = new ControlChannel(stdio(child, FD.control));
  return {
    child: withStreams(child),
    pid: outer,
    control,
    words: () => words.trim(),
    kill: () => killBoth(child, outer, control),
    hold: (held) => {
      for (const handle of [child, child.channel, ...(child.stdio as unknown as (Held | null)[])]) {
        if (held) handle?.ref();
        else handle?.unref();
      }
    },
  };
}

export function ownFilesChanged(): BackplaneError {
  return new BackplaneError(
    "sandbox.unavailable",
    "Another process changed the gateway's own files of the sandbox while a plugin was started; that start was stopped.",
    { fix: "Call again: the files were restored. Find out what writes into the gateway's home." },
  );
}

interface Held {
  ref(): void;
  unref(): void;
}

/** The inner process first, and with it the whole namespace; the outer one follows by itself, or is made to. */
function killBoth(child: ChildProcess, outer: number, control: ControlChannel): void {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const inner = childrenOf(outer);
  for (const pid of inner) send(pid);
  control.close();
  if (inner.length === 0) {
    send(-outer);
    return;
  }
  const late = setTimeout(() => send(-outer), OUTER_GRACE_MS);
  child.once("exit", () => clearTimeout(late));
}

function send(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}

/** The rest of the runner knows a child by stdin, stdout and stderr; here these are other descriptors. */
function withStreams(child: ChildProcess): ChildProcessWithoutNullStreams {
  const [stdin, stdout, stderr] = [FD.stdin, FD.stdout, FD.stderr].map((fd) => stdio(child, fd));
  return Object.assign(child, { stdin, stdout, stderr }) as unknown as ChildProcessWithoutNullStreams;
}

function stdio(child: ChildProcess, fd: number): Duplex {
  return (child.stdio as unknown as (Duplex & Readable)[])[fd]!;
}
