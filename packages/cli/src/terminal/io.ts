/** Everything the command touches outside itself, so that a test runs it in-process with captured streams. */
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { BackplaneError } from "@backplane/contract";

export type Signal = "SIGINT" | "SIGTERM";

export interface Io {
  stdin: Readable & { isTTY?: boolean; setRawMode?(on: boolean): unknown };
  stdout: Writable & { isTTY?: boolean };
  stderr: Writable & { isTTY?: boolean };
  env: Record<string, string | undefined>;
  cwd: string;
  /** The program that `up --detach` starts again in the background, with the flags that Node needs for it. */
  entry: { node: string; args: string[] };
  /** Returns how to stop listening. While someone listens, a signal does not end the process. */
  onSignal(listener: (signal: Signal) => void): () => void;
  /** Returns how to stop listening. While someone listens, an error that nobody caught does not end the process. */
  onCrash(listener: (error: unknown) => void): () => void;
  /** Ends the process at once: the second Ctrl-C. */
  exit(code: number): void;
}

/** npm and the launcher pass on the Ctrl-C that the terminal has sent to every process already. */
const SAME_KEY_PRESS_MS = 300;

/** The real process. `entry` is the module that is running: main.js, or main.ts under type stripping. */
export function processIo(entry: string, same_key_press_ms = SAME_KEY_PRESS_MS): Io {
  return {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    cwd: process.cwd(),
    entry: { node: process.execPath, args: [...process.execArgv, fileURLToPath(entry)] },
    onSignal(listener) {
      let lastInterrupt = Number.NEGATIVE_INFINITY;
      const hear = (signal: Signal) => {
        const now = performance.now();
        const repeated = signal === "SIGINT" && now - lastInterrupt < same_key_press_ms;
        if (signal === "SIGINT") lastInterrupt = now;
        if (!repeated) listener(signal);
      };
      process.on("SIGINT", hear);
      process.on("SIGTERM", hear);
      return () => {
        process.off("SIGINT", hear);
        process.off("SIGTERM", hear);
      };
    },
    onCrash(listener) {
      process.on("uncaughtException", listener);
      process.on("unhandledRejection", listener);
      return () => {
        process.off("uncaughtException", listener);
        process.off("unhandledRejection", listener);
      };
    },
    exit: (code) => process.exit(code),
  };
}

/** Runs a stream until it ends by itself; Ctrl-C ends it cleanly with exit code 130. */
export async function untilSignal(io: Io, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const silence = io.onSignal(() => stop.abort());
  try {
    await work(stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    silence();
  }
  if (stop.signal.aborted) {
    throw new BackplaneError("cancelled", "Interrupted.", { details: { signal: "SIGINT" } });
  }
}
