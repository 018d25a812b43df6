/** A queue with one reader. Reading ends once `end` has been called and the queue is empty. */
export class MessageQueue<T> {
  readonly #max: number;
  readonly #messages: T[] = [];
  #ended = false;
  #wake: (() => void) | null = null;

  /** Messages beyond `max` are dropped, so that a reader that stopped reading cannot exhaust memory. */
  constructor(max: number = Number.POSITIVE_INFINITY) {
    this.#max = max;
  }

  get size(): number {
    return this.#messages.length;
  }

  put(message: T): void {
    if (this.#messages.length < this.#max) this.#messages.push(message);
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
        const message = this.#messages.shift();
        if (message !== undefined) yield message;
        else if (this.#ended) return;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      stop.removeEventListener("abort", wake);
    }
  }
}
