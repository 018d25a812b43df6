/**
 * Who gets an event. Subscriptions to whole kinds are laid out per scope and kind and kept until one changes; those
 * bound to a session are found by its id, so that a thousand watchers cost the other sessions nothing.
 */

import { type BusEvent, KERNEL_SESSION, type PluginCategory } from "@backplane/contract";
import type { Scope } from "@backplane/ports";
import type { BusHandler, SubscribeOptions } from "./bus-port.ts";

const KINDS_KEPT = 1_024;

/** A plugin or a part of the kernel, as its subscriptions know it. */
export interface Subscriber {
  readonly name: string;
  readonly category: PluginCategory | null;
  /** null: the kernel, which sees every scope. */
  readonly scope: Scope | null;
  /** Handlers that some session's worker waits for. A publisher that is held never waits itself. */
  held: number;
  readonly settled: ((failure: string | null) => void) | null;
}

export interface Subscription {
  readonly owner: Subscriber;
  readonly kinds: readonly string[];
  readonly handler: BusHandler;
  readonly options: SubscribeOptions;
  active: boolean;
}

/** What one scope's events are delivered to, by kind. */
export interface RouteCache {
  readonly org_id: string;
  readonly project_id: string | null;
  readonly kinds: Map<string, readonly Subscription[]>;
  version: number;
}

const NOBODY: readonly Subscription[] = [];

export class Routes {
  readonly #whole = new Set<Subscription>();
  readonly #bySession = new Map<string, readonly Subscription[]>();
  #version = 0;

  get size(): number {
    let bound = 0;
    for (const list of this.#bySession.values()) bound += list.length;
    return this.#whole.size + bound;
  }

  add(subscription: Subscription): void {
    const { session } = subscription.options;
    if (session === undefined) {
      this.#whole.add(subscription);
      this.#version++;
    } else this.#bySession.set(session, [...(this.#bySession.get(session) ?? NOBODY), subscription]);
  }

  remove(subscription: Subscription): void {
    subscription.active = false;
    const { session } = subscription.options;
    if (session === undefined) {
      if (this.#whole.delete(subscription)) this.#version++;
      return;
    }
    const left = (this.#bySession.get(session) ?? NOBODY).filter((other) => other !== subscription);
    if (left.length === 0) this.#bySession.delete(session);
    else this.#bySession.set(session, left);
  }

  /** Subscriptions to this kind whatever the session. */
  whole(cache: RouteCache, kind: string): readonly Subscription[] {
    if (cache.version !== this.#version || cache.kinds.size > KINDS_KEPT) {
      cache.kinds.clear();
      cache.version = this.#version;
    }
    const known = cache.kinds.get(kind);
    if (known !== undefined) return known;
    const found = [...this.#whole].filter((one) => sees(one.owner.scope, cache, kind) && wants(one, kind));
    cache.kinds.set(kind, found);
    return found;
  }

  /** Subscriptions bound to the session that the event is about. */
  bound(event: BusEvent): readonly Subscription[] {
    if (this.#bySession.size === 0) return NOBODY;
    const session = subjectOf(event);
    const list = session === null ? undefined : this.#bySession.get(session);
    if (list === undefined) return NOBODY;
    return list.filter((one) => sees(one.owner.scope, event, event.kind) && wants(one, event.kind));
  }
}

/** The conversation that an event belongs to: of those on `kernel` the one that they name (bus.scope). */
function subjectOf(event: BusEvent): string | null {
  if (event.session_id !== KERNEL_SESSION) return event.session_id;
  const { target_session_id, session_id } = event.payload;
  if (typeof target_session_id === "string") return target_session_id;
  return typeof session_id === "string" ? session_id : null;
}

/**
 * The whole org sees its projects. A project sees itself, and of the org only what is announced to all: an org's
 * own conversations stay out of its sight.
 */
function sees(viewer: Scope | null, event: Scope, kind: string): boolean {
  if (viewer === null) return true;
  if (viewer.org_id !== event.org_id) return false;
  if (viewer.project_id === null || viewer.project_id === event.project_id) return true;
  return event.project_id === null && isAnnounced(kind);
}

function isAnnounced(kind: string): boolean {
  return kind.startsWith("plugin.") || kind.startsWith("kernel.") || kind === "config.updated";
}

function wants({ kinds }: Subscription, kind: string): boolean {
  return kinds.some((one) => one === kind || (one.endsWith("*") && kind.startsWith(one.slice(0, -1))));
}
