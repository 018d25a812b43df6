/**
 * The workers. One event of a session at a time: all its handlers start in order, and the next event starts when the
 * last of them ended or ran out of time. Nothing runs inside `publish`; a worker runs in a microtask of its own, and
 * after a long run all of them let input and timers have their turn.
 *
 * A handler that answers a call (`ANSWERS`) starts in its turn but is not waited for: a model's or tool's minutes
 * hold up neither its own deltas, nor parallel calls, nor `user.interrupt`.
 */

import type { BusEvent, PluginCategory } from "@backplane/contract";
import type { Clock, Logger } from "@backplane/ports";
import type { BusLimits } from "./bus-port.ts";
import { type Flight, Flights } from "./flights.ts";
import type { Requests } from "./requests.ts";
import type { Routes, Subscription } from "./routes.ts";
import type { SessionQueue } from "./session-queue.ts";

const EVENTS_PER_TURN = 1_024;
const ERROR_LENGTH = 2_000;

const ANSWERS: Partial<Record<PluginCategory, string>> = {
  tool: "tool.call.request",
  "llm-provider": "llm.call.request",
  strategy: "strategy.decide.request",
  memory: "memory.query",
};

export interface DispatchDeps {
  clock: Clock;
  log: Logger;
  limits: BusLimits;
  routes: Routes;
  requests: Requests;
  pause: (run: () => void) => void;
  /** How long the call that an event asks for may take, where its publisher said so. */
  calls: Map<string, number>;
  tellFailure(event: BusEvent, name: string, error: string): void;
  idle(queue: SessionQueue): void;
}

export class Dispatch {
  readonly #deps: DispatchDeps;
  readonly #flights: Flights;
  #delivered = 0;
  #parked: SessionQueue[] = [];

  constructor(deps: DispatchDeps) {
    this.#deps = deps;
    this.#flights = new Flights(
      deps.clock,
      deps.limits.sweep_ms,
      (flight, failed, error) => this.#land(flight, failed, error),
      (flight) => this.#expire(flight),
    );
  }

  get running(): number {
    return this.#flights.running;
  }

  /** Works a session off until it is empty or has to wait for a handler. */
  run(queue: SessionQueue): void {
    const { limits, requests } = this.#deps;
    while (queue.left === 0) {
      if (this.#delivered >= EVENTS_PER_TURN) {
        this.#park(queue);
        return;
      }
      const event = queue.shift(limits.queue);
      if (event === undefined) {
        queue.awake = false;
        this.#deps.idle(queue);
        return;
      }
      this.#delivered++;
      requests.answer(event);
      this.#deliver(queue, event);
    }
  }

  stop(): void {
    this.#flights.stop();
    this.#parked = [];
  }

  #deliver(queue: SessionQueue, event: BusEvent): void {
    const { routes, calls } = this.#deps;
    // Counts this very loop, so that no handler's end can start the next event before all have started.
    queue.left = 1;
    for (const subscription of routes.whole(queue.scope, event.kind)) this.#start(queue, subscription, event);
    for (const subscription of routes.bound(event)) this.#start(queue, subscription, event);
    if (calls.size > 0) calls.delete(event.id);
    queue.left--;
  }

  #start(queue: SessionQueue, subscription: Subscription, event: BusEvent): void {
    if (!subscription.active || !this.#wanted(subscription, event)) return;
    const { owner, handler } = subscription;
    const waits = owner.category === null || ANSWERS[owner.category] !== event.kind ? queue : null;
    if (waits !== null) {
      owner.held++;
      waits.left++;
    }
    let result: unknown;
    try {
      result = handler(event);
    } catch (error) {
      this.#end(subscription, event, waits, messageOf(error));
      return;
    }
    if (!isThenable(result)) {
      this.#end(subscription, event, waits, null);
      return;
    }
    const flight = this.#flights.open(subscription, event, waits, this.#limit(owner.category, event));
    // A real promise calls back once whatever its own `then` says; other thenables are wrapped into one.
    const promise = result instanceof Promise ? result : Promise.resolve(result);
    void Promise.prototype.then.call(promise, flight.ok, flight.fail);
  }

  #wanted(subscription: Subscription, event: BusEvent): boolean {
    const { where } = subscription.options;
    if (where === undefined) return true;
    try {
      return where(event);
    } catch (error) {
      this.#settle(subscription, event, messageOf(error));
      return false;
    }
  }

  /** Tools and providers run to their call's own deadline, everything else to its category's (bus.isolation). */
  #limit(category: PluginCategory | null, event: BusEvent): number {
    const { limits, calls } = this.#deps;
    if (category === null) return limits.handler_ms;
    if ((category === "tool" || category === "llm-provider") && ANSWERS[category] === event.kind) {
      const call_ms = calls.get(event.id);
      if (call_ms !== undefined) return call_ms;
    }
    return limits.category_ms[category] ?? limits.handler_ms;
  }

  #land(flight: Flight, failed: boolean, error: unknown): void {
    const { subscription, event, queue, timed_out } = flight;
    this.#flights.close(flight);
    if (!timed_out) this.#end(subscription!, event!, queue, failed ? messageOf(error) : null);
  }

  #expire({ subscription, event, queue, limit_ms }: Flight): void {
    const { owner, options } = subscription!;
    try {
      options.expired?.(event!);
    } catch (error) {
      this.#deps.log.warn({ err: error, plugin: owner.name }, "telling a late handler's host failed");
    }
    this.#end(subscription!, event!, queue, `handling ${event!.kind} took longer than ${limit_ms} ms`);
  }

  /** One handler is done; the last one of an event lets the next event start. */
  #end(
    subscription: Subscription,
    event: BusEvent,
    queue: SessionQueue | null,
    failure: string | null,
  ): void {
    this.#settle(subscription, event, failure);
    if (queue === null) return;
    subscription.owner.held--;
    if (--queue.left === 0) this.run(queue);
  }

  #settle({ owner }: Subscription, event: BusEvent, failure: string | null): void {
    const { log } = this.#deps;
    if (owner.settled !== null) {
      try {
        owner.settled(failure);
      } catch (error) {
        log.error({ err: error, plugin: owner.name }, "counting a handler's outcome failed");
      }
    }
    if (failure === null) return;
    log.warn({ plugin: owner.name, kind: event.kind, event_id: event.id, failure }, "a handler failed");
    // Telling of a failure to hear of failures would go on for ever.
    if (event.kind !== "plugin.error") this.#deps.tellFailure(event, owner.name, failure);
  }

  #park(queue: SessionQueue): void {
    if (this.#parked.push(queue) > 1) return;
    this.#deps.pause(() => {
      const parked = this.#parked;
      this.#parked = [];
      this.#delivered = 0;
      for (const one of parked) this.run(one);
    });
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && (value instanceof Promise || "then" in value);
}

function messageOf(error: unknown): string {
  let message = "the handler threw something that cannot be read";
  try {
    message = error instanceof Error ? error.message : String(error);
  } catch {
    // A thrown value whose own spelling throws.
  }
  return message.slice(0, ERROR_LENGTH);
}
