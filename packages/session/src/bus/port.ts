/** One plugin's (or kernel part's) way onto the bus. It stamps what it publishes: a plugin cannot say who it is. */

import { BackplaneError, type BusEvent, type BusPayload } from "@backplane/contract";
import type { Scope } from "@backplane/ports";
import type {
  BusHandler,
  KernelPort,
  KernelPublishOptions,
  Prepared,
  PublishOptions,
  RequestOptions,
  SubscribeOptions,
} from "./bus-port.ts";
import type { PublishRules } from "./publish-rules.ts";
import type { Requests } from "./requests.ts";
import type { Routes, Subscriber, Subscription } from "./routes.ts";
import type { ScopeSessions, SessionQueue, Waiting } from "./session-queue.ts";

type AnyOptions = PublishOptions & Partial<KernelPublishOptions>;

/** What the bus lends to its ports. */
export interface Backbone {
  readonly routes: Routes;
  readonly requests: Requests;
  readonly limits: { queue: number; reserve: number };
  scopeOf(scope: Scope): ScopeSessions;
  queueOf(scope: ScopeSessions, session_id: string): SessionQueue;
  stamp(draft: Draft): BusEvent;
  enter(queue: SessionQueue, event: BusEvent): void;
  /** Withdraws the publishes of `by` that still wait for a place. */
  withdraw(by: Subscriber, error: Error): void;
  gone(port: Port): void;
}

export interface Draft {
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
  readonly home: ScopeSessions | null;
  readonly #backbone: Backbone;
  readonly #rules: PublishRules;
  readonly #subscriptions = new Set<Subscription>();
  #detached = false;

  constructor(backbone: Backbone, self: Subscriber, rules: PublishRules, home: ScopeSessions | null) {
    this.name = self.name;
    this.self = self;
    this.home = home;
    this.#backbone = backbone;
    this.#rules = rules;
  }

  subscribe<K extends string>(
    kinds: K | readonly K[],
    handler: BusHandler<K>,
    options: SubscribeOptions = {},
  ): () => void {
    this.#checkAttached();
    const subscription: Subscription = {
      owner: this.self,
      kinds: typeof kinds === "string" ? [kinds] : [...kinds],
      handler: handler as BusHandler,
      options,
      active: true,
    };
    this.#subscriptions.add(subscription);
    this.#backbone.routes.add(subscription);
    return () => {
      if (this.#subscriptions.delete(subscription)) this.#backbone.routes.remove(subscription);
    };
  }

  publish<K extends string>(kind: K, payload: BusPayload<K>, options: AnyOptions): Promise<BusEvent<K>> {
    try {
      const draft = this.#draft(kind, payload, options);
      const event = this.#place(draft);
      if (event !== null) return Promise.resolve(event as BusEvent<K>);
      const { promise, resolve, reject } = Promise.withResolvers<BusEvent>();
      this.#wait(draft, resolve, reject);
      return promise as Promise<BusEvent<K>>;
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  tryPublish<K extends string>(kind: K, payload: BusPayload<K>, options: AnyOptions): BusEvent<K> | null {
    return this.#place(this.#draft(kind, payload, options)) as BusEvent<K> | null;
  }

  prepare<K extends string>(kind: K, payload: BusPayload<K>, options: AnyOptions): Prepared<K> {
    const draft = this.#draft(kind, payload, options);
    const event = this.#backbone.stamp(draft);
    const publish = () => this.#backbone.enter(this.#backbone.queueOf(draft.scope, draft.session_id), event);
    return { event: event as BusEvent<K>, publish };
  }

  async request<K extends string>(
    kind: K,
    payload: BusPayload<K>,
    options: RequestOptions & { scope?: Scope },
  ): Promise<BusEvent> {
    const draft = this.#draft(kind, payload, options, options.timeout_ms);
    let waiting: Waiting | null = null;
    const request = this.#backbone.requests.open(this.self, kind, options, (error) => {
      if (waiting !== null)
        this.#backbone.queueOf(draft.scope, draft.session_id).refuse((one) => one === waiting, error);
    });
    if (request.ended) return request.answer;
    try {
      const event = this.#place(draft);
      // Registered in the very step that gives the event its id: an answer can follow at once.
      if (event !== null) request.sent(event);
      else {
        const sent = (entered: BusEvent) => {
          waiting = null;
          request.sent(entered);
        };
        waiting = this.#wait(draft, sent, (error) => request.end(error));
      }
    } catch (error) {
      request.end(error as Error);
    }
    return request.answer;
  }

  detach(): void {
    if (this.#detached) return;
    this.#detached = true;
    for (const subscription of this.#subscriptions) this.#backbone.routes.remove(subscription);
    this.#subscriptions.clear();
    const error = new BackplaneError("cancelled", `${this.name} was detached from the bus`);
    this.#backbone.requests.endAll(error, this.self);
    this.#backbone.withdraw(this.self, error);
    this.#backbone.gone(this);
  }

  #draft(kind: string, payload: unknown, options: AnyOptions, call_ms = options.call_ms): Draft {
    this.#checkAttached();
    const { session_id } = options;
    const kept = this.#rules.check(kind, payload, session_id);
    return { kind, payload: kept, session_id, source: this.name, scope: this.#scope(options), call_ms };
  }

  /** A place in the line, or null when the line is full. A publisher that a worker waits for may use the reserve. */
  #place(draft: Draft): BusEvent | null {
    const { limits } = this.#backbone;
    const queue = this.#backbone.queueOf(draft.scope, draft.session_id);
    if (this.self.held > 0) {
      if (queue.size >= limits.queue + limits.reserve) return null;
    } else if (queue.size >= limits.queue) return null;
    const event = this.#backbone.stamp(draft);
    this.#backbone.enter(queue, event);
    return event;
  }

  #wait(draft: Draft, entered: (event: BusEvent) => void, refuse: (error: Error) => void): Waiting {
    const backbone = this.#backbone;
    const queue = backbone.queueOf(draft.scope, draft.session_id);
    // Waiting for a worker that waits for the publisher would end only at the deadline, so it is refused instead.
    if (this.self.held > 0 || queue.waiting >= backbone.limits.reserve) {
      throw new BackplaneError(
        "request.overloaded",
        `session ${draft.session_id} has as many events as it takes`,
      );
    }
    const waiting: Waiting = {
      by: this.self,
      enter: () => {
        const event = backbone.stamp(draft);
        entered(event);
        return event;
      },
      refuse,
    };
    queue.wait(waiting);
    return waiting;
  }

  #scope(options: AnyOptions): ScopeSessions {
    const { home } = this;
    if (home === null) {
      if (options.scope === undefined)
        throw new BackplaneError("request.invalid", "a kernel event needs a scope");
      return this.#backbone.scopeOf(options.scope);
    }
    const { project_id } = options;
    if (project_id === undefined || project_id === home.project_id) return home;
    if (home.project_id !== null) {
      throw new BackplaneError("policy.denied", `${this.name} may not publish into another project`);
    }
    return this.#backbone.scopeOf({ org_id: home.org_id, project_id });
  }

  #checkAttached(): void {
    if (this.#detached)
      throw new BackplaneError("cancelled", `${this.name} is no longer attached to the bus`);
  }
}
