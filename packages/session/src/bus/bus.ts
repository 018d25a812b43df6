/**
 * The kernel's event bus: in memory, one FIFO queue per session, a closed catalog of kinds, and a scope on every event.
 * A session takes memory only while it has events or running handlers. Plugins and parts of the kernel publish and
 * subscribe through ports.
 */

import { BUS_LIMITS, type BusEvent, IdTable, KERNEL_SESSION } from "@backplane/contract";
import type { Scope, Timer } from "@backplane/ports";
import type {
  Bus,
  BusDeps,
  BusLimits,
  BusPort,
  BusStats,
  KernelPort,
  PluginRegistration,
} from "./bus-port.ts";
import { checkRegistration, type RegisteredPlugin } from "./check-registration.ts";
import { Dispatch } from "./dispatch.ts";
import { type EventDraft, Port, type PortHost } from "./port.ts";
import { PublishRules } from "./publish-rules.ts";
import { type HandlerFailure, Requests } from "./requests.ts";
import { Routes, type Subscriber } from "./routes.ts";
import { type ScopeSessions, SessionQueue } from "./session-queue.ts";

/**
 * A tool or provider that answers one of these kinds has the deadline of the call instead of the limit of its category
 * (bus.isolation).
 */
const KINDS_WITH_CALL_TIMEOUT: ReadonlySet<string> = new Set(["tool.call.request", "llm.call.request"]);
/** `RESOLVED.then(run)` schedules a microtask like `queueMicrotask(run)`, but is cheaper (benchmark bus.dispatch). */
const RESOLVED = Promise.resolve();

export function createBus(deps: BusDeps): Bus {
  return new MemoryBus(deps);
}

class MemoryBus implements Bus, PortHost {
  readonly limits: BusLimits;
  readonly routes = new Routes();
  readonly requests: Requests;
  readonly #deps: BusDeps;
  readonly #dispatch: Dispatch;
  readonly #scopes = new Map<string, Map<string | null, ScopeSessions>>();
  readonly #call_timeouts = new Map<string, number>();
  readonly #ports = new Map<Port, RegisteredPlugin | null>();
  readonly #run: (queue: SessionQueue) => void;
  #sweep: Timer | null = null;
  #closed = false;

  constructor(deps: BusDeps) {
    this.#deps = deps;
    this.limits = { ...BUS_LIMITS, category_ms: {}, ...deps.limits };
    this.requests = new Requests(deps.clock);
    this.#dispatch = new Dispatch({
      clock: deps.clock,
      log: deps.log,
      limits: this.limits,
      routes: this.routes,
      requests: this.requests,
      pause: deps.pause ?? ((run) => void deps.clock.after(0, run)),
      call_timeouts: this.#call_timeouts,
      publishFailure: (event, name, failure) => this.#publishFailure(event, name, failure),
      onIdle: (queue) => this.#removeQueue(queue),
    });
    this.#run = (queue) => this.#dispatch.run(queue);
  }

  attach(registration: PluginRegistration): BusPort {
    const prefixes = checkRegistration(registration, this.#ports.values());
    const { name, category, scope, onHandled = null } = registration;
    const own_scope = this.getScope(scope);
    own_scope.ports++;
    const self: Subscriber = { name, category, scope: { ...scope }, blocking: 0, onHandled };
    const port = new Port(this, self, new PublishRules({ name, category, prefixes }), own_scope);
    this.#ports.set(port, { registration, prefixes });
    return port;
  }

  kernel(part?: string, prefixes: readonly string[] = []): KernelPort {
    const name = part === undefined ? "kernel" : `kernel-${part}`;
    const self: Subscriber = { name, category: null, scope: null, blocking: 0, onHandled: null };
    const port = new Port(this, self, new PublishRules({ name, category: null, prefixes }), null);
    this.#ports.set(port, null);
    return port;
  }

  stats(): BusStats {
    const totals = { sessions: 0, queued: 0, waiting: 0, scopes: 0 };
    for (const scope of this.#allScopes()) {
      totals.scopes++;
      totals.sessions += scope.sessions.size;
      for (const queue of scope.sessions.values()) {
        totals.queued += queue.size;
        totals.waiting += queue.waiting;
      }
    }
    const { size: requests } = this.requests;
    return { ...totals, running: this.#dispatch.running, requests, subscriptions: this.routes.size };
  }

  close(): void {
    this.#closed = true;
    for (const port of this.#ports.keys()) port.detach();
    this.#dispatch.stop();
    this.#sweep?.stop();
    this.#sweep = null;
    this.#scopes.clear();
    this.#call_timeouts.clear();
  }

  getScope({ org_id, project_id }: Scope): ScopeSessions {
    let projects = this.#scopes.get(org_id);
    if (projects === undefined) {
      projects = new Map();
      this.#scopes.set(org_id, projects);
    }
    let scope = projects.get(project_id);
    if (scope === undefined) {
      scope = { org_id, project_id, kinds: new Map(), version: -1, sessions: new IdTable(), ports: 0 };
      projects.set(project_id, scope);
    }
    return scope;
  }

  getQueue(scope: ScopeSessions, session_id: string): SessionQueue {
    let queue = scope.sessions.get(session_id);
    if (queue === undefined) {
      queue = new SessionQueue(scope, session_id, this.#run);
      scope.sessions.set(session_id, queue);
    }
    return queue;
  }

  buildEvent({ kind, payload, session_id, source, scope, call_ms }: EventDraft): BusEvent {
    const { clock, ids } = this.#deps;
    const event: BusEvent = Object.freeze({
      id: ids.next("event"),
      kind,
      session_id,
      ts: clock.now() / 1000,
      source,
      org_id: scope.org_id,
      project_id: scope.project_id,
      payload,
    });
    if (call_ms !== undefined && KINDS_WITH_CALL_TIMEOUT.has(kind))
      this.#call_timeouts.set(event.id, call_ms);
    return event;
  }

  enqueue(queue: SessionQueue, event: BusEvent): void {
    queue.push(event);
    if (queue.scheduled) return;
    queue.scheduled = true;
    void RESOLVED.then(queue.run);
  }

  rejectWaiting(publisher: Subscriber, error: Error): void {
    for (const scope of this.#allScopes()) {
      for (const queue of scope.sessions.values())
        queue.rejectWaiting((publish) => publish.publisher === publisher, error);
    }
  }

  removePort(port: Port): void {
    this.#ports.delete(port);
    if (port.own_scope === null) return;
    port.own_scope.ports--;
    this.#scheduleSweep(port.own_scope);
  }

  /** Publishes plugin.error on the kernel's session, in the scope of the event whose handler failed. */
  #publishFailure(
    { org_id, project_id, id: event_id }: BusEvent,
    name: string,
    failure: HandlerFailure,
  ): void {
    const scope = this.getScope({ org_id, project_id });
    const queue = this.getQueue(scope, KERNEL_SESSION);
    if (queue.size >= this.limits.queue + this.limits.reserve) {
      this.#deps.log.error(
        { plugin: name },
        "dropped a plugin.error event: the queue of the kernel session is full",
      );
      return;
    }
    const timed_out = failure.timed_out ? { timed_out: true } : {};
    const payload = Object.freeze({ name, error: failure.message, event_id, ...timed_out });
    const draft = { kind: "plugin.error", payload, session_id: KERNEL_SESSION, source: "kernel", scope };
    this.enqueue(queue, this.buildEvent({ ...draft, call_ms: undefined }));
  }

  #removeQueue(queue: SessionQueue): void {
    queue.scope.sessions.delete(queue.id);
    this.#scheduleSweep(queue.scope);
  }

  /**
   * Unused scopes are removed later: a session that pauses between events would otherwise recreate its scope each
   * time.
   */
  #scheduleSweep(scope: ScopeSessions): void {
    if (this.#closed || scope.ports > 0 || scope.sessions.size > 0) return;
    this.#sweep ??= this.#deps.clock.after(this.limits.sweep_ms, () => this.#sweepScopes());
  }

  #sweepScopes(): void {
    this.#sweep = null;
    for (const [org_id, projects] of this.#scopes) {
      for (const [project_id, { ports, sessions }] of projects) {
        if (ports === 0 && sessions.size === 0) projects.delete(project_id);
      }
      if (projects.size === 0) this.#scopes.delete(org_id);
    }
  }

  *#allScopes(): Iterable<ScopeSessions> {
    for (const projects of this.#scopes.values()) yield* projects.values();
  }
}
