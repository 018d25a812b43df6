/**
 * Parses one large frame at a time in a worker thread. Transferring the whole parsed value would block the event loop
 * for as long as parsing it here. The worker therefore sends small chunks of JSON text on request, and the value is
 * assembled here, one chunk per turn. If the worker crashes, the frame fails, not the process.
 */
import { Worker } from "node:worker_threads";
import { BackplaneError, type Json } from "@backplane/contract";
import { PARSE_WORKER } from "./parse-worker.ts";

export type ParseOutcome = { value: Json } | { problem: string; start: Uint8Array };

type Container = Json[] | { [key: string]: Json };
/** Steps that build the value top down: open a large container, fill it with small values, close it. */
type Step =
  | ["open", string | null, "array" | "object"]
  | ["items", Json[]]
  | ["entries", { [key: string]: Json }]
  | ["close"]
  | ["value", Json];

interface WorkerMessage {
  steps?: string;
  done?: boolean;
  problem?: string;
}

const IDLE_MS = 5_000;
const START_BYTES = 800;

export class OffThreadParser {
  #worker: Worker | undefined;
  #idle: NodeJS.Timeout | undefined;

  async parse(body: Buffer, depth: number): Promise<ParseOutcome> {
    clearTimeout(this.#idle);
    const start = Uint8Array.prototype.slice.call(body, 0, START_BYTES);
    this.#worker ??= this.#startWorker();
    const worker = this.#worker;
    const builder = new ValueBuilder();
    try {
      const problem = await parseInWorker(worker, body, depth, builder);
      this.#idle = setTimeout(() => this.close(), IDLE_MS);
      this.#idle.unref();
      return problem === undefined ? { value: builder.value } : { problem, start };
    } catch (cause) {
      this.close();
      throw new BackplaneError("frame_invalid", "The thread that parses large frames failed.", {
        details: { bytes: body.length },
        cause,
      });
    }
  }

  close(): void {
    clearTimeout(this.#idle);
    void this.#worker?.terminate();
    this.#worker = undefined;
  }

  #startWorker(): Worker {
    // The worker gets neither environment nor arguments, because it needs only the bytes.
    const worker = new Worker(PARSE_WORKER, { eval: true, env: {}, argv: [], execArgv: [] });
    worker.on("error", () => this.#forget(worker));
    worker.on("exit", () => this.#forget(worker));
    return worker;
  }

  #forget(worker: Worker): void {
    if (this.#worker === worker) this.#worker = undefined;
  }
}

function parseInWorker(
  worker: Worker,
  body: Buffer,
  depth: number,
  builder: ValueBuilder,
): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const finish = (settle: () => void): void => {
      worker.off("message", onMessage).off("error", onError).off("exit", onExit);
      worker.unref();
      settle();
    };
    const onError = (error: Error): void => finish(() => reject(error));
    const onExit = (): void => finish(() => reject(new Error("the parser thread exited")));
    const onMessage = (message: WorkerMessage): void => {
      if (message.problem !== undefined || message.done === true) finish(() => resolve(message.problem));
      else {
        builder.apply(JSON.parse(message.steps!) as Step[]);
        worker.postMessage("more");
      }
    };
    worker.on("message", onMessage).on("error", onError).on("exit", onExit);
    worker.ref();
    worker.postMessage({ body, depth });
  });
}

class ValueBuilder {
  value: Json = null;
  readonly #stack: Container[] = [];

  apply(steps: Step[]): void {
    for (const step of steps) {
      const top = this.#stack.at(-1);
      if (step[0] === "open") this.#enter(top, step[1], step[2] === "array" ? [] : {});
      else if (step[0] === "items") for (const item of step[1]) (top as Json[]).push(item);
      else if (step[0] === "entries") Object.assign(top as object, step[1]);
      else if (step[0] === "close") this.#stack.pop();
      else this.value = step[1];
    }
  }

  #enter(parent: Container | undefined, key: string | null, container: Container): void {
    if (parent === undefined) this.value = container;
    else if (Array.isArray(parent)) parent.push(container);
    else parent[key!] = container;
    this.#stack.push(container);
  }
}
