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

  publish<K extends AnnouncedKind>(kind: K, payload: BusPayload<K>): void {
    for (const org_id of this.#subscriptions.orgs) {
      const scope = { org_id, project_id: null };
      const event = this.#kernel.tryPublish(kind, payload, { session_id: KERNEL_SESSION, scope });
      if (event === null)
        this.#log.warn({ kind, org_id }, "the queue of the kernel session is full; an event was dropped");
    }
  }

  /**
   * Resolves when the event has been delivered in every org, after all events queued before it. Does not resolve if a
   * full queue dropped the event, so the caller sets a time limit.
   */
  async publishAndWait<K extends AnnouncedKind>(kind: K, payload: BusPayload<K>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const pending_orgs = new Set(this.#subscriptions.orgs);
    const unsubscribe = this.#kernel.subscribe(kind, ({ org_id }) => {
      if (pending_orgs.delete(org_id) && pending_orgs.size === 0) resolve();
    });
    try {
      this.publish(kind, payload);
      if (pending_orgs.size > 0) await promise;
    } finally {
      unsubscribe();
    }
  }

  close(): void {
    this.#kernel.detach();
  }
}
