/**
 * Publishes the kernel's events about plugins on the kernel session of every org in use, without waiting when a queue
 * is full.
 */

import { type BusPayload, KERNEL_SESSION } from "@backplane/contract";
import type { Logger } from "@backplane/ports";
import type { Bus, BusPort, KernelPublishOptions } from "@backplane/session";
import type { PluginSubscriptions } from "./subscriptions.ts";

type AnnouncedKind =
  | "plugin.loaded"
  | "plugin.reloaded"
  | "plugin.removed"
  | "plugin.error"
  | "kernel.shutdown";

export class Announcer {
  readonly #kernel: BusPort<KernelPublishOptions>;
  readonly #subscriptions: PluginSubscriptions;
  readonly #log: Logger;

  constructor(bus: Bus, subscriptions: PluginSubscriptions, log: Logger) {
    this.#kernel = bus.kernel();
    this.#subscriptions = subscriptions;
    this.#log = log;
  }

  /** Returns the orgs whose queue was full. Their event was dropped. */
  publish<K extends AnnouncedKind>(kind: K, payload: BusPayload<K>): string[] {
    const full: string[] = [];
    for (const org_id of this.#subscriptions.orgs) {
      const scope = { org_id, project_id: null };
      const event = this.#kernel.tryPublish(kind, payload, { session_id: KERNEL_SESSION, scope });
      if (event !== null) continue;
      this.#log.warn({ kind, org_id }, "the queue of the kernel session is full; an event was dropped");
      full.push(org_id);
    }
    return full;
  }

  /**
   * Resolves when the event has been delivered in every org, after all events queued before it. Does not wait for an org
   * whose event was dropped because its queue is full. A handler that blocks a queue delays the event, so the caller
   * sets a time limit.
   */
  async publishAndWait<K extends AnnouncedKind>(kind: K, payload: BusPayload<K>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const pending_orgs = new Set(this.#subscriptions.orgs);
    const unsubscribe = this.#kernel.subscribe(kind, ({ org_id }) => {
      if (pending_orgs.delete(org_id) && pending_orgs.size === 0) resolve();
    });
    try {
      for (const org_id of this.publish(kind, payload)) pending_orgs.delete(org_id);
      if (pending_orgs.size > 0) await promise;
    } finally {
      unsubscribe();
    }
  }

  close(): void {
    this.#kernel.detach();
  }
}
