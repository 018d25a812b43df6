/**
 * The port of one plugin or kernel part. The port sets source and scope of each event, so a plugin cannot forge them.
 */

import { BackplaneError, type BusEvent, type BusPayload } from "@backplane/contract";
import type { Scope } from "@backplane/ports";
import type {
  BusHandler,
  KernelPort,
  KernelPublishOptions,
  PreparedEvent,
  PublishOptions,
  RequestOptions,
  SubscribeOptions,
} from "./bus-port.ts";
import type { PublishRules } from "./publish-rules.ts";
import type { Requests } from "./requests.ts";
import type { BusSubscription, Routes, Subscriber } from "./routes.ts";
import type { ScopeSessions, SessionQueue, WaitingPublish } from "./session-queue.ts";

type AnyOptions = PublishOptions & Partial<KernelPublishOptions>;

/** The part of the bus that its ports use. */
export interface PortHost {
  readonly routes: Routes;
  readonly requests: Requests;
  readonly limits: { queue: number; reserve: number };
  getScope(scope: Scope): ScopeSessions;
  getQueue(scope: ScopeSessions, session_id: string): SessionQueue;
  buildEvent(draft: EventDraft): BusEvent;
  enqueue(queue: SessionQueue, event: BusEvent): void;
  /** Rejects the publishes of `publisher` that still wait for a place in a queue. */
  rejectWaiting(publisher: Subscriber, error: Error): void;
  removePort(port: Port): void;
}

export interface EventDraft {
  kind: string;
  payload: Readonly<Record<string, unknown>>;
  session_id: string;
  source: string;
  scope: ScopeSessions;
  call_ms: number | undefined;
}

export class Port implements KernelPort {
  readonly name: string;
  readonly self: Subscriber;
  readonly own_scope: ScopeSessions | null;
  readonly #host: PortHost;
  readonly #rules: PublishRules;
  readonly #subscriptions = new Set<BusSubscription>();
  #detached = false;

  constructor(host: PortHost, self: Subscriber, rules: PublishRules, own_scope: ScopeSessions | null) {
    this.name = self.name;
    this.self = self;
    this.own_scope = own_scope;
    this.#host = host;
    this.#rules = rules;
  }

  subscribe<K extends string>(
    kinds: K | readonly K[],
    handler: BusHandler<K>,
    options: SubscribeOptions = {},
  ): () => void {
    this.#checkAttached();
    const subscription: BusSubscription = {
      owner: this.self,
      kinds: typeof kinds === "string" ? [kinds] : [...kinds],
      handler: handler as BusHandler,
      options,
      active: true,
    };
    this.#subscriptions.add(subscription);
    this.#host.routes.add(subscription);
    return () => {
      if (this.#subscriptions.delete(subscription)) this.#host.routes.remove(subscription);
    };
  }

  publish<K extends string>(kind: K, payload: BusPayload<K>, options: AnyOptions): Promise<BusEvent<K>> {
    try {
      const draft = this.#draft(kind, payload, options);
      const event = this.#enqueue(draft);
      if (event !== null) return Promise.resolve(event as BusEvent<K>);
      const { promise, resolve, reject } = Promise.withResolvers<BusEvent>();
      this.#waitForPlace(draft, resolve, reject);
      return promise as Promise<BusEvent<K>>;
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  tryPublish<K extends string>(kind: K, payload: BusPayload<K>, options: AnyOptions): BusEvent<K> | null {
    return this.#enqueue(this.#draft(kind, payload, options)) as BusEvent<K> | null;
  }

  prepare<K extends string>(kind: K, payload: BusPayload<K>, options: AnyOptions): PreparedEvent<K> {
    const draft = this.#draft(kind, payload, options);
    const event = this.#host.buildEvent(draft);
    const publish = () => this.#host.enqueue(this.#host.getQueue(draft.scope, draft.session_id), event);
    return { event: event as BusEvent<K>, publish };
  }

  async request<K extends string>(
    kind: K,
    payload: BusPayload<K>,
    options: RequestOptions & { scope?: Scope },
  ): Promise<BusEvent> {
    const draft = this.#draft(kind, payload, options, options.timeout_ms);
    let waiting: WaitingPublish | null = null;
    const request = this.#host.requests.open(this.self, kind, options, (error) => {
      if (waiting !== null)
        this.#host
          .getQueue(draft.scope, draft.session_id)
          .rejectWaiting((candidate) => candidate === waiting, error);
    });
    if (request.ended) return request.answer;
    try {
      const event = this.#enqueue(draft);
      // The request is registered in the same synchronous step, because the next event may be its answer.
      if (event !== null) request.markSent(event);
      else {
        const onEnqueued = (enqueued: BusEvent) => {
          waiting = null;
          request.markSent(enqueued);
        };
        waiting = this.#waitForPlace(draft, onEnqueued, (error) => request.fail(error));
      }
    } catch (error) {
      request.fail(error as Error);
    }
    return request.answer;
  }

  detach(): void {
    if (this.#detached) return;
    this.#detached = true;
    for (const subscription of this.#subscriptions) this.#host.routes.remove(subscription);
    this.#subscriptions.clear();
    const error = new BackplaneError("cancelled", `${this.name} was detached from the bus.`);
    this.#host.requests.failAll(error, this.self);
    this.#host.rejectWaiting(this.self, error);
    this.#host.removePort(this);
  }

  #draft(kind: string, payload: unknown, options: AnyOptions, call_ms = options.call_ms): EventDraft {
    this.#checkAttached();
    const { session_id } = options;
    const checked_payload = this.#rules.check(kind, payload, session_id);
    return {
      kind,
      payload: checked_payload,
      session_id,
      source: this.name,
      scope: this.#targetScope(options),
      call_ms,
    };
  }

  /** Returns null when the queue is full. A publisher with a handler that blocks a session may use the reserve. */
  #enqueue(draft: EventDraft): BusEvent | null {
    const { limits } = this.#host;
    const queue = this.#host.getQueue(draft.scope, draft.session_id);
    if (this.self.blocking > 0) {
      if (queue.size >= limits.queue + limits.reserve) return null;
    } else if (queue.size >= limits.queue) return null;
    const event = this.#host.buildEvent(draft);
    this.#host.enqueue(queue, event);
    return event;
  }

  #waitForPlace(
    draft: EventDraft,
    onEnqueued: (event: BusEvent) => void,
    reject: (error: Error) => void,
  ): WaitingPublish {
    const host = this.#host;
    const queue = host.getQueue(draft.scope, draft.session_id);
    // If a handler of the publisher blocks the queue, waiting here would deadlock until the handler's deadline.
    if (this.self.blocking > 0 || queue.waiting >= host.limits.reserve) {
      throw new BackplaneError(
        "request.overloaded",
        `The event queue of session ${draft.session_id} is full.`,
      );
    }
    const waiting: WaitingPublish = {
      publisher: this.self,
      createEvent: () => {
        const event = host.buildEvent(draft);
        onEnqueued(event);
        return event;
      },
      reject,
    };
    queue.wait(waiting);
    return waiting;
  }

  #targetScope(options: AnyOptions): ScopeSessions {
    const { own_scope } = this;
    if (own_scope === null) {
      if (options.scope === undefined)
        throw new BackplaneError("request.invalid", "A kernel event needs a scope.");
      return this.#host.getScope(options.scope);
    }
    const { project_id } = options;
    if (project_id === undefined || project_id === own_scope.project_id) return own_scope;
    if (own_scope.project_id !== null) {
      throw new BackplaneError("policy.denied", `${this.name} may not publish into another project.`);
    }
    return this.#host.getScope({ org_id: own_scope.org_id, project_id });
  }

  #checkAttached(): void {
    if (this.#detached)
      throw new BackplaneError("cancelled", `${this.name} is no longer attached to the bus.`);
  }
}
