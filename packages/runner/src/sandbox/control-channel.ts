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
}

export type Start = { started: true } | { started: false; errno: number | null };

const MAX_LINE = 256;

export class ControlChannel {
  readonly started: Promise<Start>;
  /** Known once the channel has closed, unless PID 1 itself was killed. */
  ended: EndReport | null = null;
  readonly #socket: Duplex;
  #text = "";
  #begun: (start: Start) => void = () => {};
  readonly #waiting: ((errno: number) => void)[] = [];

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
    if (!/^[A-Za-z0-9_][A-Za-z0-9_-]{0,199}$/.test(name)) {
      throw new BackplaneError("internal", `${name} cannot name a scratch folder`);
    }
    return new Promise((resolve) => {
      if (this.#socket.destroyed) return resolve(EPIPE);
      this.#waiting.push(resolve);
      this.#socket.write(`${what} ${name}\n`);
    });
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

  #read(chunk: Buffer): void {
    this.#text += chunk.toString("latin1");
    for (let end = this.#text.indexOf("\n"); end >= 0; end = this.#text.indexOf("\n")) {
      this.#line(this.#text.slice(0, end));
      this.#text = this.#text.slice(end + 1);
    }
    if (this.#text.length > MAX_LINE) this.close();
  }

  #line(line: string): void {
    const [word, ...rest] = line.split(" ");
    const numbers = rest.map(Number);
    if (word === "started") this.#begun({ started: true });
    else if (word === "failed") this.#begun({ started: false, errno: numbers[0] ?? null });
    else if (word === "ok") this.#waiting.shift()?.(0);
    else if (word === "no") this.#waiting.shift()?.(numbers[0] ?? EPIPE);
    else if (word === "ended" && numbers.length === 5) {
      const [code, signal, cpu_ms, peak_kb, full] = numbers as [number, number, number, number, number];
      this.ended = {
        code: code < 0 ? null : code,
        signal,
        cpu_ms,
        peak_bytes: peak_kb * 1024,
        scratch_full: full === 1,
      };
    }
  }

  #closed(): void {
    this.#begun({ started: false, errno: null });
    for (const answer of this.#waiting.splice(0)) answer(EPIPE);
  }
}

const EPIPE = 32;
