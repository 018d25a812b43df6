/**
 * One session's line. Events wait in `items`; when it is full, publishers wait in `waiting`, first come first
 * served. A line exists only while it holds something or a worker waits on its behalf (bus.fifo).
 */
import type { BusEvent, IdTable } from "@backplane/contract";
import type { RouteCache, Subscriber } from "./routes.ts";

/** A publish that has no place yet. It becomes an event, with id and time, when it gets one. */
export interface Waiting {
  readonly by: Subscriber;
  enter(): BusEvent;
  refuse(error: Error): void;
}

/** The sessions of one org and project. */
export interface ScopeSessions extends RouteCache {
  readonly sessions: IdTable<SessionQueue>;
  /** Ports that live here; without any, and without sessions, the scope is forgotten. */
  ports: number;
}

export class SessionQueue {
  readonly scope: ScopeSessions;
  readonly id: string;
  /** Handlers of the current event that are still to end. */
  left = 0;
  /** A run of this line's worker is under way or was asked for. */
  awake = false;
  readonly wake: () => void;
  #items: BusEvent[] = [];
  #head = 0;
  #waiting: Waiting[] = [];

  constructor(scope: ScopeSessions, id: string, run: (queue: SessionQueue) => void) {
    this.scope = scope;
    this.id = id;
    this.wake = () => run(this);
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

  wait(publish: Waiting): void {
    this.#waiting.push(publish);
  }

  /** The next event. Its place goes to whoever waited longest, so a line with waiting publishers is always full. */
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
    while (this.#waiting.length > 0 && this.size < limit) items.push(this.#waiting.shift()!.enter());
    return event;
  }

  /** Refuses the waiting publishes that `match`. */
  refuse(match: (publish: Waiting) => boolean, error: Error): void {
    const [out, kept]: [Waiting[], Waiting[]] = [[], []];
    for (const publish of this.#waiting) (match(publish) ? out : kept).push(publish);
    this.#waiting = kept;
    for (const publish of out) publish.refuse(error);
  }
}
