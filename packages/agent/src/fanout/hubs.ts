/**
 * The watched sessions. The first lookup is by session id, so that an event of an unwatched session costs one
 * lookup.
 */
import type { Scope, SessionKey } from "@backplane/ports";
import { Hub, type HubDeps } from "./hub.ts";
import type { SubscriberConnection } from "./subscriber-connection.ts";

const NONE: readonly Hub[] = [];

export class Hubs {
  readonly #deps: HubDeps;
  readonly #by_id = new Map<string, readonly Hub[]>();

  constructor(deps: HubDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#by_id.size;
  }

  get(key: SessionKey): Hub | undefined {
    const hubs = this.#by_id.get(key.session_id);
    return hubs?.find(
      ({ key: hub_key }) => hub_key.workspace === key.workspace && isSame(hub_key.scope, key.scope),
    );
  }

  /** Events do not carry a workspace, so this returns the hubs of every workspace that has a session with this id. */
  forSession(scope: Scope, session_id: string): readonly Hub[] {
    const hubs = this.#by_id.get(session_id);
    if (hubs === undefined) return NONE;
    return hubs.every(({ key }) => isSame(key.scope, scope))
      ? hubs
      : hubs.filter(({ key }) => isSame(key.scope, scope));
  }

  *all(): Iterable<Hub> {
    for (const hubs of this.#by_id.values()) yield* hubs;
  }

  *connections(): Iterable<SubscriberConnection> {
    for (const hub of this.all()) yield* hub.connections;
  }

  /** Returns the hub of the session and creates it if needed. The hub stays at least until `unpin`. */
  pin(key: SessionKey): Hub {
    let hub = this.get(key);
    if (hub === undefined) {
      hub = new Hub(key, this.#deps);
      this.#by_id.set(key.session_id, [...(this.#by_id.get(key.session_id) ?? NONE), hub]);
    }
    hub.pins++;
    return hub;
  }

  unpin(hub: Hub): void {
    hub.pins--;
    this.release(hub);
  }

  release(hub: Hub): void {
    if (!hub.is_idle) return;
    const { session_id } = hub.key;
    const remaining = (this.#by_id.get(session_id) ?? NONE).filter((other) => other !== hub);
    if (remaining.length === 0) this.#by_id.delete(session_id);
    else this.#by_id.set(session_id, remaining);
  }

  stats(): { sessions: number; connections: number } {
    const stats = { sessions: 0, connections: 0 };
    for (const { connections } of this.all()) {
      if (connections.size > 0) stats.sessions++;
      stats.connections += connections.size;
    }
    return stats;
  }
}

function isSame(scope: Scope, other: Scope): boolean {
  return scope.org_id === other.org_id && scope.project_id === other.project_id;
}
