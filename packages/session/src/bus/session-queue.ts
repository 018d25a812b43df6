/**
 * The event queue of one session. When the queue is full, publishers wait in order of arrival. A queue exists only
 * while it holds events or waits for a handler of its current event (bus.fifo).
 */
import type { BusEvent, IdTable } from "@backplane/contract";
import type { RouteCache, Subscriber } from "./routes.ts";

/** A publish that waits for a place in the queue. Its event gets id and time when it enters the queue. */
export interface WaitingPublish {
  readonly publisher: Subscriber;
  createEvent(): BusEvent;
  reject(error: Error): void;
}

/** The sessions of one org and project. */
export interface ScopeSessions extends RouteCache {
  readonly sessions: IdTable<SessionQueue>;
  /** Plugin ports attached in this scope. A scope without ports and without sessions is removed. */
  ports: number;
}

export class SessionQueue {
  readonly scope: ScopeSessions;
  readonly id: string;
  /** The number of running handlers that the next event waits for. */
  pending = 0;
  /** True while delivery runs or is scheduled. */
  scheduled = false;
  readonly run: () => void;
  #items: BusEvent[] = [];
  #head = 0;
  #waiting: WaitingPublish[] = [];

  constructor(scope: ScopeSessions, id: string, run: (queue: SessionQueue) => void) {
    this.scope = scope;
    this.id = id;
    this.run = () => run(this);
  }

  get size(): number {
    return this.#items.length - this.#head;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  push(event: BusEvent): void {
    this.#items.push(event);
  }

  wait(publish: WaitingPublish): void {
    this.#waiting.push(publish);
  }

  /** Removes the next event and gives its place to the longest-waiting publisher, which a later one cannot overtake. */
  shift(limit: number): BusEvent | undefined {
    const items = this.#items;
    if (this.#head === items.length) return undefined;
    const event = items[this.#head]!;
    this.#head++;
    if (this.#head === items.length) {
      items.length = 0;
      this.#head = 0;
    } else if (this.#head >= 64 && this.#head * 2 >= items.length) {
      items.splice(0, this.#head);
      this.#head = 0;
    }
    while (this.#waiting.length > 0 && this.size < limit) items.push(this.#waiting.shift()!.createEvent());
    return event;
  }

  rejectWaiting(match: (publish: WaitingPublish) => boolean, error: Error): void {
    const [rejected, remaining]: [WaitingPublish[], WaitingPublish[]] = [[], []];
    for (const publish of this.#waiting) (match(publish) ? rejected : remaining).push(publish);
    this.#waiting = remaining;
    for (const publish of rejected) publish.reject(error);
  }
}
