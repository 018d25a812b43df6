/** A request to something behind the gateway: it takes its time, and tells and asks meanwhile. */
import type { JsonObject } from "@backplane/contract";
import type { Exchange } from "./exchange.ts";
import type { Questions } from "./questions.ts";

export interface Work {
  /** Rejects with an RpcError alone. */
  readonly result: Promise<JsonObject>;
  readonly questions: Questions;
  /** There is something to tell before the end, so that the answer is a stream from the start. */
  eager(): boolean;
  /** Nothing was told so far that this client would hear. */
  quiet(exchange: Exchange): boolean;
  /** Notifications, until there will be no more. */
  notes(exchange: Exchange, token: string | number | undefined, stop: AbortSignal): AsyncIterable<JsonObject>;
  cancel(): void;
}

/** Notifications that have come and are not read yet; ends when `end` was called and all are read. */
export class NoteQueue<T> {
  readonly #most: number;
  readonly #waiting: T[] = [];
  #ended = false;
  #wake: (() => void) | null = null;

  /** Beyond `most` they are dropped: a reader that does not read must not fill our memory. */
  constructor(most: number = Number.POSITIVE_INFINITY) {
    this.#most = most;
  }

  get size(): number {
    return this.#waiting.length;
  }

  put(note: T): void {
    if (this.#waiting.length < this.#most) this.#waiting.push(note);
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *read(stop: AbortSignal): AsyncGenerator<T> {
    const wake = () => this.#wake?.();
    stop.addEventListener("abort", wake);
    try {
      while (!stop.aborted) {
        const note = this.#waiting.shift();
        if (note !== undefined) yield note;
        else if (this.#ended) return;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      stop.removeEventListener("abort", wake);
    }
  }
}
