/**
 * Passes the parts of an answer from the bus to their only reader. The bus does not wait for a slow client, so the
 * queue is bounded and the call of a client that falls too far behind is cancelled.
 */
import { BackplaneError } from "@backplane/contract";
import type { LlmEndpointPart } from "@backplane/ports";

const MAX_QUEUED = 100_000;

export class PartQueue implements AsyncIterableIterator<LlmEndpointPart> {
  readonly #cancelCall: () => void;
  #queued: LlmEndpointPart[] = [];
  #at = 0;
  #reader: { resolve(step: IteratorResult<LlmEndpointPart>): void; reject(error: unknown): void } | null =
    null;
  #ended = false;
  #failure: { error: unknown } | null = null;

  /** `cancelCall` is called when the reader stops early or falls behind. */
  constructor(cancelCall: () => void) {
    this.#cancelCall = cancelCall;
  }

  push(part: LlmEndpointPart): void {
    if (this.#ended || this.#failure !== null) return;
    if (this.#reader !== null) {
      this.#reader.resolve({ done: false, value: part });
      this.#reader = null;
    } else if (this.#queued.push(part) - this.#at > MAX_QUEUED) {
      const message = "The call was cancelled, because the client read the answer too slowly.";
      this.fail(new BackplaneError("request.overloaded", message));
      this.#cancelCall();
    }
  }

  end(): void {
    this.#ended = true;
    this.#reader?.resolve({ done: true, value: undefined });
    this.#reader = null;
  }

  /** Parts that are already queued are delivered first. */
  fail(error: unknown): void {
    if (this.#ended || this.#failure !== null) return;
    this.#failure = { error };
    this.#reader?.reject(error);
    this.#reader = null;
  }

  next(): Promise<IteratorResult<LlmEndpointPart>> {
    if (this.#at < this.#queued.length) {
      const value = this.#queued[this.#at++]!;
      if (this.#at === this.#queued.length) [this.#queued, this.#at] = [[], 0];
      return Promise.resolve({ done: false, value });
    }
    if (this.#failure !== null) return Promise.reject(this.#failure.error);
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject };
    });
  }

  return(): Promise<IteratorResult<LlmEndpointPart>> {
    if (!this.#ended) this.#cancelCall();
    this.end();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
