/**
 * Delivers queued events to their handlers, one event of a session at a time: all handlers of an event start in order,
 * and the next event starts when the last of them has ended or timed out. Delivery starts in a microtask and never
 * inside `publish`. After every EVENTS_BETWEEN_PAUSES events all sessions yield to I/O and timers.
 *
 * The next event does not wait for a handler that answers a call (`ANSWERED_KIND`): a model call or a tool call may
 * take minutes, and its own deltas, parallel calls and `user.interrupt` must be delivered meanwhile.
 */

import type { BusEvent, PluginCategory } from "@backplane/contract";
import type { Clock, Logger } from "@backplane/ports";
import type { BusLimits } from "./bus-port.ts";
import type { HandlerFailure, Requests } from "./requests.ts";
import type { BusSubscription, Routes } from "./routes.ts";
import { type RunningHandler, RunningHandlers } from "./running-handlers.ts";
import type { SessionQueue } from "./session-queue.ts";

const EVENTS_BETWEEN_PAUSES = 1_024;
const ERROR_LENGTH = 2_000;

const ANSWERED_KIND: Partial<Record<PluginCategory, string>> = {
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
  /** Deadlines of requested calls by event id, where the publisher set `call_ms`. */
  call_timeouts: Map<string, number>;
  publishFailure(event: BusEvent, name: string, failure: HandlerFailure): void;
  onIdle(queue: SessionQueue): void;
}

export class Dispatch {
  readonly #deps: DispatchDeps;
  readonly #handlers: RunningHandlers;
  #delivered = 0;
  #paused: SessionQueue[] = [];

  constructor(deps: DispatchDeps) {
    this.#deps = deps;
    this.#handlers = new RunningHandlers(
      deps.clock,
      deps.limits.sweep_ms,
      (handler, failed, error) => this.#onSettled(handler, failed, error),
      (handler) => this.#onTimeout(handler),
    );
  }

  get running(): number {
    return this.#handlers.size;
  }

  /** Delivers events of a session until its queue is empty or a handler has to be awaited. */
  run(queue: SessionQueue): void {
    const { limits, requests } = this.#deps;
    while (queue.pending === 0) {
      if (this.#delivered >= EVENTS_BETWEEN_PAUSES) {
        this.#pause(queue);
        return;
      }
      const event = queue.shift(limits.queue);
      if (event === undefined) {
        queue.scheduled = false;
        this.#deps.onIdle(queue);
        return;
      }
      this.#delivered++;
      requests.answer(event);
      this.#deliver(queue, event);
    }
  }

  stop(): void {
    this.#handlers.stop();
    this.#paused = [];
  }

  #deliver(queue: SessionQueue, event: BusEvent): void {
    const { routes, call_timeouts } = this.#deps;
    // Counts this loop itself, so that a handler that ends early cannot start the next event before all have started.
    queue.pending = 1;
    for (const subscription of routes.forKind(queue.scope, event.kind))
      this.#start(queue, subscription, event);
    for (const subscription of routes.forSession(event)) this.#start(queue, subscription, event);
    if (call_timeouts.size > 0) call_timeouts.delete(event.id);
    queue.pending--;
  }

  #start(queue: SessionQueue, subscription: BusSubscription, event: BusEvent): void {
    if (!subscription.active || !this.#passesFilter(subscription, event)) return;
    const { owner, handler } = subscription;
    const blocked_queue =
      owner.category === null || ANSWERED_KIND[owner.category] !== event.kind ? queue : null;
    if (blocked_queue !== null) {
      owner.blocking++;
      blocked_queue.pending++;
    }
    let promise: Promise<unknown> | null;
    try {
      promise = toPromise(handler(event));
    } catch (error) {
      this.#finish(subscription, event, blocked_queue, { message: messageOf(error), timed_out: false });
      return;
    }
    if (promise === null) {
      this.#finish(subscription, event, blocked_queue, null);
      return;
    }
    const running = this.#handlers.add(
      subscription,
      event,
      blocked_queue,
      this.#timeoutFor(owner.category, event),
    );
    // The built-in `then` of a native promise calls back once even if the promise overrides `then`.
    try {
      void Promise.prototype.then.call(promise, running.resolved, running.rejected);
    } catch (error) {
      // An object that only inherits from Promise.prototype, or a promise whose `constructor` throws.
      running.rejected(error);
    }
  }

  #passesFilter(subscription: BusSubscription, event: BusEvent): boolean {
    const { filter } = subscription.options;
    if (filter === undefined) return true;
    try {
      return filter(event);
    } catch (error) {
      this.#report(subscription, event, { message: messageOf(error), timed_out: false });
      return false;
    }
  }

  /**
   * A tool or provider has the deadline of the call if the publisher set one. Other handlers have the limit of their
   * category or, without one, the limit for all handlers.
   */
  #timeoutFor(category: PluginCategory | null, event: BusEvent): number {
    const { limits, call_timeouts } = this.#deps;
    if (category === null) return limits.handler_ms;
    if ((category === "tool" || category === "llm-provider") && ANSWERED_KIND[category] === event.kind) {
      const call_ms = call_timeouts.get(event.id);
      if (call_ms !== undefined) return call_ms;
    }
    return limits.category_ms[category] ?? limits.handler_ms;
  }

  #onSettled(handler: RunningHandler, failed: boolean, error: unknown): void {
    const { subscription, event, queue, timed_out } = handler;
    this.#handlers.remove(handler);
    const failure = failed ? { message: messageOf(error), timed_out } : null;
    if (!timed_out) this.#finish(subscription!, event!, queue, failure);
  }

  #onTimeout({ subscription, event, queue, limit_ms }: RunningHandler): void {
    const { owner, options } = subscription!;
    try {
      options.onTimeout?.(event!);
    } catch (error) {
      this.#deps.log.warn({ err: error, plugin: owner.name }, "the timeout callback of a handler failed");
    }
    const message = `handling ${event!.kind} took longer than ${limit_ms} ms`;
    this.#finish(subscription!, event!, queue, { message, timed_out: true });
  }

  /** Ends one handler; the last handler of an event starts the next event. */
  #finish(
    subscription: BusSubscription,
    event: BusEvent,
    queue: SessionQueue | null,
    failure: HandlerFailure | null,
  ): void {
    this.#report(subscription, event, failure);
    if (queue === null) return;
    subscription.owner.blocking--;
    if (--queue.pending === 0) this.run(queue);
  }

  #report({ owner }: BusSubscription, event: BusEvent, failure: HandlerFailure | null): void {
    const { log } = this.#deps;
    if (owner.onHandled !== null) {
      try {
        owner.onHandled(failure?.message ?? null);
      } catch (error) {
        log.error({ err: error, plugin: owner.name }, "the onHandled callback of a plugin failed");
      }
    }
    if (failure === null) return;
    this.#deps.requests.onHandlerFailed(event, owner.name, failure);
    const { message } = failure;
    log.warn(
      { plugin: owner.name, kind: event.kind, event_id: event.id, failure: message },
      "a handler failed",
    );
    // A failing handler of plugin.error would otherwise produce plugin.error events without end.
    if (event.kind !== "plugin.error") this.#deps.publishFailure(event, owner.name, failure);
  }

  #pause(queue: SessionQueue): void {
    if (this.#paused.push(queue) > 1) return;
    this.#deps.pause(() => {
      const paused = this.#paused;
      this.#paused = [];
      this.#delivered = 0;
      for (const queue of paused) this.run(queue);
    });
  }
}

/** Returns null for a value that is not a thenable. Throws if the value is a proxy whose handler throws. */
function toPromise(value: unknown): Promise<unknown> | null {
  if (typeof value !== "object" || value === null) return null;
  if (value instanceof Promise) return value;
  return "then" in value ? Promise.resolve(value) : null;
}

function messageOf(error: unknown): string {
  let message = "the handler threw a value that cannot be converted to a string";
  try {
    message = error instanceof Error ? error.message : String(error);
  } catch {
    // The thrown value's own conversion to a string throws.
  }
  return message.slice(0, ERROR_LENGTH);
}
