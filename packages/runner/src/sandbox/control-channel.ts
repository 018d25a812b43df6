/**
 * The gateway's talk with PID 1 of one sandbox: the order in, then short lines both ways. Answers come in the order
 * of the questions. When this end closes, PID 1 ends and the kernel ends everybody else in there.
 */
import type { Duplex } from "node:stream";
import { BackplaneError } from "@backplane/contract";
import type { SandboxPlan } from "./plan.ts";

/** How the plugin's own process ended, in PID 1's words. */
export interface EndReport {
  code: number | null;
  /** Number of the signal, 0 for none. */
  signal: number;
  cpu_ms: number;
  peak_bytes: number;
  scratch_full: boolean;
  /** PID 1 ended it, because a folder that it keeps holds too much. */
  kept_full: boolean;
}

export type Start = { started: true } | { started: false; errno: number | null };

/** What is asked and not answered yet. */
interface Question {
  answer(errno: number): void;
  /** Of a `get`. */
  pieces: Buffer[];
  room: number;
}

const MAX_LINE = 256;
const NOTHING = Buffer.alloc(0);
const FOLDER = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,199}$/;

export class ControlChannel {
  readonly started: Promise<Start>;
  /** Known once the channel has closed, unless PID 1 itself was killed. */
  ended: EndReport | null = null;
  readonly #socket: Duplex;
  /** The beginning of a line. */
  #held: Buffer = NOTHING;
  /** Bytes of a file that are still to come before the next line. */
  #owed = 0;
  #begun: (start: Start) => void = () => {};
  #onEnded: () => void = () => {};
  #leaving = false;
  readonly #waiting: Question[] = [];

  constructor(socket: Duplex) {
    this.#socket = socket;
    this.started = new Promise((resolve) => {
      this.#begun = resolve;
    });
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    // ECONNRESET after a kill is no news, and without a listener it would end the gateway.
    socket.on("error", () => {});
    socket.once("close", () => this.#closed());
  }

  order(plan: SandboxPlan): void {
    const records = [
      ...plan.limits.map(({ resource, value }) => `l${resource}=${value}`),
      ...(plan.scratch === null ? [] : [`s${plan.scratch.target}`]),
      ...plan.kept.map(({ target, bytes, files }) => `k${bytes} ${files} ${target}`),
      ...plan.listeners.map(({ address, port }) => `n${address} ${port}`),
      ...Object.entries(plan.env).map(([name, value]) => `e${name}=${value}`),
      ...plan.command.map((word) => `a${word}`),
    ];
    this.#block(records);
  }

  /** For `sandbox-init stage`, before the order. */
  stage(words: readonly string[]): void {
    this.#block(words);
  }

  /** Makes or removes one folder in scratch; answers 0 or the errno. */
  ask(what: "make" | "remove", name: string): Promise<number> {
    return this.#ask(`${what} ${folderName(name)}\n`);
  }

  /** The bytes of a file in a folder of scratch, or the errno. */
  async get(name: string, path: string, max_bytes: number): Promise<Buffer | number> {
    const pieces: Buffer[] = [];
    const errno = await this.#ask(
      `get ${folderName(name)}/${path} ${max_bytes}\n`,
      NOTHING,
      pieces,
      max_bytes,
    );
    return errno === 0 ? Buffer.concat(pieces) : errno;
  }

  /** A new file in a folder of scratch; answers 0 or the errno. */
  put(name: string, file: string, bytes: Uint8Array): Promise<number> {
    return this.#ask(`put ${folderName(name)}/${file} ${bytes.length}\n`, bytes);
  }

  /** Once the plugin's own process is gone; PID 1 may wait for our last questions. */
  onEnded(run: () => void): void {
    this.#onEnded = run;
  }

  /** Closes when nothing is asked any more. */
  leave(): void {
    this.#leaving = true;
    if (this.#waiting.length === 0) this.close();
  }

  close(): void {
    this.#socket.destroy();
  }

  #block(records: readonly string[]): void {
    if (records.some((record) => record.includes("\0"))) {
      throw new BackplaneError(
        "launch_failed",
        "An argument or variable of the plugin holds a NUL character.",
      );
    }
    const body = Buffer.from(`${records.join("\0")}\0`);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(body.length);
    this.#socket.write(Buffer.concat([length, body]));
  }

  #ask(line: string, bytes: Uint8Array = NOTHING, pieces: Buffer[] = [], room = 0): Promise<number> {
    return new Promise((resolve) => {
      if (this.#socket.destroyed) return resolve(EPIPE);
      this.#waiting.push({ answer: resolve, pieces, room });
      this.#socket.write(line);
      if (bytes.length > 0) this.#socket.write(bytes);
    });
  }

  #read(chunk: Buffer): void {
    let rest = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    for (;;) {
      if (this.#owed > 0) {
        const piece = rest.subarray(0, this.#owed);
        this.#owed -= piece.length;
        this.#waiting[0]?.pieces.push(piece);
        rest = rest.subarray(piece.length);
      }
      const end = this.#owed > 0 ? -1 : rest.indexOf(NEWLINE);
      if (end < 0) break;
      const line = rest.toString("latin1", 0, end);
      rest = rest.subarray(end + 1);
      this.#line(line);
    }
    this.#held = rest;
    if (rest.length > MAX_LINE) this.close();
  }

  #line(line: string): void {
    const [word, ...rest] = line.split(" ");
    const numbers = rest.map(Number);
    if (word === "started") this.#begun({ started: true });
    else if (word === "failed") this.#begun({ started: false, errno: numbers[0] ?? null });
    else if (word === "ok") this.#answered(0);
    else if (word === "no") this.#answered(numbers[0] ?? EPIPE);
    else if (word === "data") this.#owe(numbers[0] ?? -1);
    else if (word === "ended" && numbers.length === 5) {
      const [code, signal, cpu_ms, peak_kb, full] = numbers as [number, number, number, number, number];
      this.ended = {
        code: code < 0 ? null : code,
        signal,
        cpu_ms,
        peak_bytes: peak_kb * 1024,
        scratch_full: full === 1,
        kept_full: full === 2,
      };
      this.#onEnded();
    }
  }

  #owe(bytes: number): void {
    const asked = this.#waiting[0];
    // More than was asked for is no word of ours.
    if (asked === undefined || !(bytes > 0) || bytes > asked.room) {
      this.close();
      return;
    }
    asked.room -= bytes;
    this.#owed = bytes;
  }

  #answered(errno: number): void {
    this.#waiting.shift()?.answer(errno);
    // Who got the answer may have another question at once.
    if (this.#leaving) setImmediate(() => this.leave());
  }

  #closed(): void {
    this.#begun({ started: false, errno: null });
    for (const question of this.#waiting.splice(0)) question.answer(EPIPE);
  }
}

function folderName(name: string): string {
  if (!FOLDER.test(name)) throw new BackplaneError("internal", `${name} cannot name a scratch folder`);
  return name;
}

const EPIPE = 32;
const NEWLINE = 10;
