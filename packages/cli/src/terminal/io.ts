/** All input and output of the process, so that a test can run a command in-process with captured streams. */
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { BackplaneError } from "@backplane/contract";

export type Signal = "SIGINT" | "SIGTERM";

export interface Io {
  stdin: Readable & { isTTY?: boolean; setRawMode?(on: boolean): unknown };
  stdout: Writable & { isTTY?: boolean };
  stderr: Writable & { isTTY?: boolean; columns?: number };
  env: Record<string, string | undefined>;
  cwd: string;
  /** How `up --detach` starts this program again, with the same Node flags. */
  entry: { node: string; args: string[] };
  /** Returns a function that removes the listener. While one is registered, signals do not end the process. */
  onSignal(listener: (signal: Signal) => void): () => void;
  /** Returns a function that removes the listener. While one is registered, uncaught errors do not end the process. */
  onCrash(listener: (error: unknown) => void): () => void;
  /** Exits immediately, for a second Ctrl-C or a stop that takes too long. */
  exit(code: number): void;
  /** How long a command may wait without printing anything. Tests that do not check the status line set Infinity. */
  silence_ms: number;
}

/** With the redraw interval of the status line, a command that shows its status is never silent for 2 s. */
const SILENCE_MS = 1_000;

/** npm and the launcher forward the Ctrl-C that the terminal already sent to every process. */
const SAME_KEY_PRESS_MS = 300;

/** The real process. `entry` is the URL of main.js, or of main.ts under type stripping. */
export function processIo(entry: string, same_key_press_ms = SAME_KEY_PRESS_MS): Io {
  return {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    cwd: process.cwd(),
    entry: { node: process.execPath, args: [...process.execArgv, fileURLToPath(entry)] },
    onSignal(listener) {
      let last_interrupt = Number.NEGATIVE_INFINITY;
      const onSignal = (signal: Signal) => {
        const now = performance.now();
        const repeated = signal === "SIGINT" && now - last_interrupt < same_key_press_ms;
        if (signal === "SIGINT") last_interrupt = now;
        if (!repeated) listener(signal);
      };
      process.on("SIGINT", onSignal);
      process.on("SIGTERM", onSignal);
      return () => {
        process.off("SIGINT", onSignal);
        process.off("SIGTERM", onSignal);
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
    silence_ms: SILENCE_MS,
  };
}

/**
 * Runs `work` until it ends or a signal aborts it. After a signal, throws `cancelled`, which the command line maps to
 * exit code 130.
 */
export async function runUntilInterrupted(
  io: Io,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const stopListening = io.onSignal(() => stop.abort());
  try {
    await work(stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    stopListening();
  }
  if (stop.signal.aborted) {
    // SIGTERM is reported like Ctrl-C: the command exits with 130.
    throw new BackplaneError("cancelled", "Interrupted.", { details: { signal: "SIGINT" } });
  }
}
