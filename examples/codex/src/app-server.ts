/** A client of `codex app-server`: one JSON-RPC message per line over stdio, with requests in both directions. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

export interface Streams {
  input: Writable;
  output: Readable;
}

export interface ServerListener {
  onNotification(method: string, params: unknown): void;
  /** Resolves to the result of a request from the server; a rejection is sent as an error. */
  onRequest(method: string, params: unknown): Promise<unknown>;
}

interface Message {
  id?: number | string;
  method?: string;
  params?: unknown;
  result?: unknown;
  error?: { message: string };
}

/** JSON-RPC's code for an internal error. */
const INTERNAL_ERROR = -32603;

export class AppServer {
  readonly #streams: Streams;
  readonly #listener: ServerListener;
  readonly #pending = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  #last_id = 0;
  #closed: Error | null = null;

  constructor(streams: Streams, listener: ServerListener) {
    this.#streams = streams;
    this.#listener = listener;
    createInterface({ input: streams.output }).on("line", (line) => this.#receive(line));
  }

  request<Result>(method: string, params: object): Promise<Result> {
    if (this.#closed !== null) return Promise.reject(this.#closed);
    const id = ++this.#last_id;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#pending.set(id, { resolve, reject });
    this.#send({ id, method, params });
    return promise as Promise<Result>;
  }

  notify(method: string): void {
    this.#send({ method });
  }

  /** Rejects every request, both pending and later ones. */
  close(reason: Error): void {
    this.#closed ??= reason;
    for (const pending of this.#pending.values()) pending.reject(reason);
    this.#pending.clear();
  }

  #receive(line: string): void {
    let message: Message;
    try {
      message = JSON.parse(line) as Message;
    } catch {
      // The line is not a frame: a library of Codex may print to stdout.
      return;
    }
    const { id, method, params, result, error } = message;
    if (method !== undefined && id === undefined) this.#listener.onNotification(method, params);
    else if (method !== undefined) void this.#respond(id!, method, params);
    else if (typeof id === "number") {
      const pending = this.#pending.get(id);
      this.#pending.delete(id);
      if (error === undefined) pending?.resolve(result);
      else pending?.reject(new Error(error.message));
    }
  }

  async #respond(id: number | string, method: string, params: unknown): Promise<void> {
    try {
      this.#send({ id, result: await this.#listener.onRequest(method, params) });
    } catch (error) {
      this.#send({
        id,
        error: { code: INTERNAL_ERROR, message: error instanceof Error ? error.message : String(error) },
      });
    }
  }

  #send(message: object): void {
    if (this.#closed === null) this.#streams.input.write(`${JSON.stringify(message)}\n`);
  }
}

export interface RunningServer {
  server: AppServer;
  /** Rejects with the end of stderr when the process exits or cannot be started. */
  ended: Promise<never>;
  stop(): void;
}

const STDERR_CHARS = 2_000;

export function startAppServer(
  program: string,
  args: readonly string[],
  env: Record<string, string>,
  listener: ServerListener,
): RunningServer {
  const child = spawn(program, ["app-server", ...args], { env, stdio: ["pipe", "pipe", "pipe"] });
  let stderr = "";
  child.stderr.on("data", (chunk) => {
    stderr = (stderr + String(chunk)).slice(-STDERR_CHARS);
  });
  // A write to a process that has exited fails; `ended` reports why.
  child.stdin.on("error", () => {});
  const server = new AppServer({ input: child.stdin, output: child.stdout }, listener);
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const end = (problem: string) => {
    const error = new Error(`${problem}. ${stderr.trim()}`);
    server.close(error);
    reject(error);
  };
  child.once("error", (error) => end(`Codex cannot be started: ${error.message}`));
  child.once("exit", (code, signal) => end(`Codex exited: ${signal ?? `exit code ${code}`}`));
  // The caller may stop waiting before the process exits.
  ended.catch(() => {});
  return { server, ended, stop: () => void child.kill("SIGKILL") };
}
