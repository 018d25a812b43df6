/**
 * Finds the subscriptions that receive an event. Subscriptions to all sessions are cached per scope and kind until one
 * is added or removed. Subscriptions to one session are indexed by its id, so that watchers of one session add no cost
 * to the others.
 */

import { type BusEvent, KERNEL_SESSION, type PluginCategory } from "@backplane/contract";
import type { Scope } from "@backplane/ports";
import type { BusHandler, SubscribeOptions } from "./bus-port.ts";

const MAX_CACHED_KINDS = 1_024;

/** A plugin or a part of the kernel that owns subscriptions. */
export interface Subscriber {
  readonly name: string;
  readonly category: PluginCategory | null;
  /** Null for the kernel, which sees every scope. */
  readonly scope: Scope | null;
  /** Running handlers that block a session. While there are any, the subscriber's publishes must not wait. */
  blocking: number;
  readonly onHandled: ((failure: string | null) => void) | null;
}

export interface BusSubscription {
  readonly owner: Subscriber;
  readonly kinds: readonly string[];
  readonly handler: BusHandler;
  readonly options: SubscribeOptions;
  active: boolean;
}

/** The subscriptions that see events of one scope, by kind. */
export interface RouteCache {
  readonly org_id: string;
  readonly project_id: string | null;
  readonly kinds: Map<string, readonly BusSubscription[]>;
  version: number;
}

const NONE: readonly BusSubscription[] = [];

export class Routes {
  readonly #all_sessions = new Set<BusSubscription>();
  readonly #by_session = new Map<string, readonly BusSubscription[]>();
  #version = 0;

  get size(): number {
    let count = this.#all_sessions.size;
    for (const list of this.#by_session.values()) count += list.length;
    return count;
  }

  add(subscription: BusSubscription): void {
    const { session } = subscription.options;
    if (session === undefined) {
      this.#all_sessions.add(subscription);
      this.#version++;
    } else this.#by_session.set(session, [...(this.#by_session.get(session) ?? NONE), subscription]);
  }

  remove(subscription: BusSubscription): void {
    subscription.active = false;
    const { session } = subscription.options;
    if (session === undefined) {
      if (this.#all_sessions.delete(subscription)) this.#version++;
      return;
    }
    const remaining = (this.#by_session.get(session) ?? NONE).filter((other) => other !== subscription);
    if (remaining.length === 0) this.#by_session.delete(session);
    else this.#by_session.set(session, remaining);
  }

  /** Subscriptions to this kind on all sessions. */
  forKind(cache: RouteCache, kind: string): readonly BusSubscription[] {
    if (cache.version !== this.#version || cache.kinds.size > MAX_CACHED_KINDS) {
      cache.kinds.clear();
      cache.version = this.#version;
    }
    const cached = cache.kinds.get(kind);
    if (cached !== undefined) return cached;
    const subscriptions = [...this.#all_sessions].filter(
      (subscription) => canSee(subscription.owner.scope, cache, kind) && matches(subscription, kind),
    );
    cache.kinds.set(kind, subscriptions);
    return subscriptions;
  }

  /** Subscriptions to the session that the event belongs to. */
  forSession(event: BusEvent): readonly BusSubscription[] {
    if (this.#by_session.size === 0) return NONE;
    const session = subjectOf(event);
    const list = session === null ? undefined : this.#by_session.get(session);
    if (list === undefined) return NONE;
    return list.filter(
      (subscription) =>
        canSee(subscription.owner.scope, event, event.kind) && matches(subscription, event.kind),
    );
  }
}

/** The session that an event belongs to. An event on the `kernel` session may refer to another session (bus.scope). */
function subjectOf(event: BusEvent): string | null {
  if (event.session_id !== KERNEL_SESSION) return event.session_id;
  const { target_session_id, session_id } = event.payload;
  if (typeof target_session_id === "string") return target_session_id;
  return typeof session_id === "string" ? session_id : null;
}

/**
 * An org-wide subscriber sees all projects of its org. A project's subscriber sees its own project and the org's
 * announcements, but not the org's own sessions.
 */
function canSee(viewer: Scope | null, event: Scope, kind: string): boolean {
  if (viewer === null) return true;
  if (viewer.org_id !== event.org_id) return false;
  if (viewer.project_id === null || viewer.project_id === event.project_id) return true;
  return event.project_id === null && isAnnouncement(kind);
}

function isAnnouncement(kind: string): boolean {
  return kind.startsWith("plugin.") || kind.startsWith("kernel.") || kind === "config.updated";
}

function matches({ kinds }: BusSubscription, kind: string): boolean {
  return kinds.some(
    (pattern) => pattern === kind || (pattern.endsWith("*") && kind.startsWith(pattern.slice(0, -1))),
  );
}
