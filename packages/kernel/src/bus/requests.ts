/**
 * Requests that wait for an answer. An answer counts when it names the request's id, has one of the kinds that were
 * asked for, and comes on the same session in the same scope (and from the plugin that was asked, when one was
 * named). It is looked at when its turn in the session comes, so that whatever was published before it has been
 * handled. Every other answer, a late one included, resolves nothing.
 */
import { BackplaneError, type BusEvent } from "@backplane/contract";
import type { Clock, Timer } from "../ports/index.ts";
import type { RequestOptions } from "./bus-port.ts";
import type { Subscriber } from "./routes.ts";

/** A request from its call to its end; `sent` gives it the id that answers name. */
export interface OpenRequest {
  readonly answer: Promise<BusEvent>;
  readonly ended: boolean;
  sent(event: BusEvent): void;
  end(error: Error): void;
}

interface Pending extends OpenRequest {
  readonly by: Subscriber;
  settle(answer: BusEvent): void;
  accepts(answer: BusEvent): boolean;
}

export class Requests {
  readonly #clock: Clock;
  readonly #pending = new Map<string, Pending>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#pending.size;
  }

  /** `over` is told when the request ended unanswered, so that one still waiting for its place gives it up. */
  open(by: Subscriber, kind: string, options: RequestOptions, over: (error: Error) => void): OpenRequest {
    const { promise, resolve, reject } = Promise.withResolvers<BusEvent>();
    const replies = typeof options.reply === "string" ? [options.reply] : options.reply;
    let request: BusEvent | null = null;
    let ended = false;
    const leave = () => {
      ended = true;
      timer.stop();
      options.signal?.removeEventListener("abort", abort);
      if (request !== null) this.#pending.delete(request.id);
    };
    const end = (error: Error) => {
      if (ended) return;
      leave();
      reject(error);
      over(error);
    };
    const abort = () => end(new BackplaneError("cancelled", `${kind} was cancelled before an answer came`));
    const timer: Timer = this.#clock.after(options.timeout_ms, () =>
      end(new BackplaneError("timeout", `no answer to ${kind} came within ${options.timeout_ms} ms`)),
    );
    options.signal?.addEventListener("abort", abort);
    const pending: Pending = {
      by,
      answer: promise,
      get ended() {
        return ended;
      },
      sent: (event) => {
        request = event;
        this.#pending.set(event.id, pending);
      },
      end,
      settle: (answer) => {
        leave();
        resolve(answer);
      },
      accepts: (answer) =>
        request !== null &&
        answer.session_id === request.session_id &&
        answer.org_id === request.org_id &&
        answer.project_id === request.project_id &&
        replies.includes(answer.kind) &&
        (options.from === undefined || options.from === answer.source),
    };
    if (options.signal?.aborted === true) abort();
    return pending;
  }

  /** Called for every event when its turn comes. */
  answer(event: BusEvent): void {
    if (this.#pending.size === 0) return;
    const { request_id } = event.payload as { request_id?: unknown };
    if (typeof request_id !== "string") return;
    const pending = this.#pending.get(request_id);
    if (pending?.accepts(event) === true) pending.settle(event);
  }

  /** Ends what one port asked, or all. */
  endAll(error: Error, by?: Subscriber): void {
    for (const pending of this.#pending.values()) {
      if (by === undefined || pending.by === by) pending.end(error);
    }
  }
}
