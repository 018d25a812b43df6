/**
 * The control channel to PID 1 of one sandbox: the launch plan first, then short lines in both directions. Answers
 * come in the order of the requests. When the gateway closes the channel, PID 1 exits and the kernel kills all
 * other processes of the namespace.
 */
import type { Duplex } from "node:stream";
import { BackplaneError } from "@backplane/contract";
import type { DirectAttempt } from "../egress/destinations/direct-attempt.ts";
import type { SandboxPlan } from "./plan.ts";

/** How the plugin's process exited, as reported by PID 1. */
export interface EndReport {
  code: number | null;
  /** Signal number, 0 for none. */
  signal: number;
  cpu_ms: number;
  peak_bytes: number;
  scratch_full: boolean;
  /** True if PID 1 killed it because a persistent folder exceeded its limits. */
  kept_full: boolean;
}

export type StartResult = { started: true } | { started: false; errno: number | null };

/** A request without an answer yet. */
interface PendingRequest {
  answer(errno: number): void;
  /** The contents received so far for a `get`. */
  chunks: Buffer[];
  limit: number;
}

/** The longest line reports a refused DNS query. */
const MAX_LINE = 1024;
const NO_BYTES = Buffer.alloc(0);
const FOLDER = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,199}$/;

export class ControlChannel {
  readonly started: Promise<StartResult>;
  /** Known when the channel has closed, unless PID 1 itself was killed. */
  ended: EndReport | null = null;
  readonly #socket: Duplex;
  /** The incomplete last line. */
  #partial_line: Buffer = NO_BYTES;
  /** Bytes of a file that follow before the next line. */
  #expected_bytes = 0;
  #onStart: (start: StartResult) => void = () => {};
  /** The errno that prevents reports of refused connections, or null. Known once the plugin has started. */
  untraced: number | null = null;
  #onEnded: () => void = () => {};
  #onRefused: (attempt: DirectAttempt | { unlisted: number }) => void = () => {};
  #closing = false;
  readonly #waiting: PendingRequest[] = [];

  constructor(socket: Duplex) {
    this.#socket = socket;
    this.started = new Promise((resolve) => {
      this.#onStart = resolve;
    });
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    // ECONNRESET is expected after a kill; without a listener it would crash the gateway.
    socket.on("error", () => {});
    socket.once("close", () => this.#onClose());
  }

  sendPlan(plan: SandboxPlan): void {
    const records = [
      ...plan.limits.map(({ resource, value }) => `l${resource}=${value}`),
      ...(plan.scratch === null ? [] : [`s${plan.scratch.target}`]),
      `w${plan.cwd}`,
      ...plan.kept.map(({ target, bytes, files }) => `k${bytes} ${files} ${target}`),
      ...plan.listeners.map(({ address, port }) => `n${address} ${port}`),
      ...Object.entries(plan.env).map(([name, value]) => `e${name}=${value}`),
      ...plan.command.map((word) => `a${word}`),
    ];
    this.#sendRecords(records);
  }

  /** Sends the commands for `sandbox-init stage`, before the plan. */
  sendStageCommands(words: readonly string[]): void {
    this.#sendRecords(words);
  }

  /** Creates or removes a scratch folder. Returns 0 or the errno. */
  sendFolderCommand(command: "make" | "remove", name: string): Promise<number> {
    return this.#send(`${command} ${folderName(name)}\n`);
  }

  /** Returns the contents of a file in a scratch folder, or the errno. */
  get(name: string, path: string, max_bytes: number): Promise<Buffer | number> {
    return this.getBelowScratch(`${folderName(name)}/${path}`, max_bytes);
  }

  /** Returns the contents of a file anywhere in scratch, or the errno. `isArtifactPath` must accept the path. */
  async getBelowScratch(path: string, max_bytes: number): Promise<Buffer | number> {
    const chunks: Buffer[] = [];
    const errno = await this.#send(`get ${path} ${max_bytes}\n`, NO_BYTES, chunks, max_bytes);
    return errno === 0 ? Buffer.concat(chunks) : errno;
  }

  /** Resolves when everything that was refused until now has been reported. */
  async requestTrace(): Promise<void> {
    await this.#send("trace\n");
  }

  /** Creates a file in a scratch folder. Returns 0 or the errno. */
  put(name: string, file: string, bytes: Uint8Array): Promise<number> {
    return this.#send(`put ${folderName(name)}/${file} ${bytes.length}\n`, bytes);
  }

  /** Called when the plugin's process has exited; PID 1 may still wait for final requests. */
  onEnded(run: () => void): void {
    this.#onEnded = run;
  }

  onRefused(run: (attempt: DirectAttempt | { unlisted: number }) => void): void {
    this.#onRefused = run;
  }

  /** Closes the channel as soon as no request is pending. */
  closeWhenIdle(): void {
    this.#closing = true;
    if (this.#waiting.length === 0) this.close();
  }

  close(): void {
    this.#socket.destroy();
  }

  #sendRecords(records: readonly string[]): void {
    if (records.some((record) => record.includes("\0"))) {
      throw new BackplaneError(
        "launch_failed",
        "An argument or variable of the plugin contains a NUL character.",
      );
    }
    const body = Buffer.from(`${records.join("\0")}\0`);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(body.length);
    this.#socket.write(Buffer.concat([length, body]));
  }

  #send(line: string, bytes: Uint8Array = NO_BYTES, chunks: Buffer[] = [], limit = 0): Promise<number> {
    return new Promise((resolve) => {
      if (this.#socket.destroyed) return resolve(EPIPE);
      this.#waiting.push({ answer: resolve, chunks, limit });
      this.#socket.write(line);
      if (bytes.length > 0) this.#socket.write(bytes);
    });
  }

  #read(chunk: Buffer): void {
    let rest = this.#partial_line.length === 0 ? chunk : Buffer.concat([this.#partial_line, chunk]);
    for (;;) {
      if (this.#expected_bytes > 0) {
        const content = rest.subarray(0, this.#expected_bytes);
        this.#expected_bytes -= content.length;
        this.#waiting[0]?.chunks.push(content);
        rest = rest.subarray(content.length);
      }
      const end = this.#expected_bytes > 0 ? -1 : rest.indexOf(NEWLINE);
      if (end < 0) break;
      const line = rest.toString("latin1", 0, end);
      rest = rest.subarray(end + 1);
      this.#handleLine(line);
    }
    this.#partial_line = rest;
    if (rest.length > MAX_LINE) this.close();
  }

  #handleLine(line: string): void {
    const [word, ...rest] = line.split(" ");
    const numbers = rest.map(Number);
    if (word === "started") this.#onStart({ started: true });
    else if (word === "failed") this.#onStart({ started: false, errno: numbers[0] ?? null });
    else if (word === "ok") this.#settle(0);
    else if (word === "no") this.#settle(numbers[0] ?? EPIPE);
    else if (word === "refused") this.#reportRefused(rest);
    else if (word === "unlisted") this.#onRefused({ unlisted: numbers[0] ?? 0 });
    else if (word === "untraced") this.untraced = numbers[0] ?? 0;
    else if (word === "data") this.#expectData(numbers[0] ?? -1);
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

  #reportRefused([protocol, address, port, count, question]: string[]): void {
    if ((protocol !== "tcp" && protocol !== "udp") || address === undefined) return;
    this.#onRefused({
      protocol,
      address,
      port: Number(port),
      count: Number(count),
      question: question === undefined || question === "" ? null : Buffer.from(question, "hex"),
    });
  }

  #expectData(bytes: number): void {
    const pending = this.#waiting[0];
    // PID 1 never sends more than was requested.
    if (pending === undefined || !(bytes > 0) || bytes > pending.limit) {
      this.close();
      return;
    }
    pending.limit -= bytes;
    this.#expected_bytes = bytes;
  }

  #settle(errno: number): void {
    this.#waiting.shift()?.answer(errno);
    // The receiver of the answer may send another request immediately.
    if (this.#closing) setImmediate(() => this.closeWhenIdle());
  }

  #onClose(): void {
    this.#onStart({ started: false, errno: null });
    for (const pending of this.#waiting.splice(0)) pending.answer(EPIPE);
  }
}

function folderName(name: string): string {
  if (!FOLDER.test(name))
    throw new BackplaneError("internal", `${name} is not a valid name for a scratch folder.`);
  return name;
}

const EPIPE = 32;
const NEWLINE = 10;
