/** An Io that collects output in memory and receives signals from the test. */
import { PassThrough } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Io, Signal } from "../../src/index.ts";

interface Terminal extends PassThrough {
  isTTY?: boolean;
  setRawMode?(on: boolean): unknown;
}

export interface CapturedIo extends Io {
  out: () => string;
  err: () => string;
  signal(name: Signal): void;
  /** Raises an uncaught error. */
  crash(error: unknown): void;
  exits: number[];
  stdin: Terminal;
  /** The argument of each call to setRawMode, in order. */
  raw: boolean[];
}

export interface CaptureOptions {
  env?: Record<string, string>;
  cwd?: string;
  /** The content of stdin, which then ends; undefined for an empty stdin, null for one that stays open. */
  stdin?: string | null;
  tty?: boolean;
  /** By default no status is printed while a command waits, however busy the machine is. */
  silence_ms?: number;
}

export function captureIo(options: CaptureOptions = {}): CapturedIo {
  const signal_listeners = new Set<(signal: Signal) => void>();
  const crash_listeners = new Set<(error: unknown) => void>();
  const out: string[] = [];
  const err: string[] = [];
  const raw: boolean[] = [];
  const exits: number[] = [];
  const stdin: Terminal = new PassThrough();
  if (options.stdin !== null && options.tty !== true) stdin.end(options.stdin ?? "");
  if (options.tty === true) {
    stdin.isTTY = true;
    stdin.setRawMode = (on) => raw.push(on);
  }
  return {
    stdin,
    stdout: createSink(out, options.tty),
    stderr: createSink(err, options.tty),
    env: options.env ?? {},
    cwd: options.cwd ?? "/",
    entry: {
      node: process.execPath,
      args: [fileURLToPath(new URL("../../dist/main.js", import.meta.url))],
    },
    onSignal(listener) {
      signal_listeners.add(listener);
      return () => signal_listeners.delete(listener);
    },
    onCrash(listener) {
      crash_listeners.add(listener);
      return () => crash_listeners.delete(listener);
    },
    crash(error) {
      for (const listener of crash_listeners) listener(error);
    },
    exit: (code) => void exits.push(code),
    out: () => out.join(""),
    err: () => err.join(""),
    signal(name) {
      for (const listener of signal_listeners) listener(name);
    },
    exits,
    raw,
    silence_ms: options.silence_ms ?? Number.POSITIVE_INFINITY,
  };
}

function createSink(chunks: string[], tty: boolean | undefined): Terminal {
  const stream: Terminal = new PassThrough();
  stream.on("data", (chunk: Buffer) => chunks.push(chunk.toString()));
  if (tty === true) stream.isTTY = true;
  return stream;
}
