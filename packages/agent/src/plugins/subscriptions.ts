/**
 * The subscription of each plugin to the bus, with one port per org. A subscription outlives a reload, so
 * that calls that still run in the old instance can publish their answers while the new instance already
 * receives events.
 */

import { BackplaneError } from "@backplane/contract";
import type { Bus, BusPort, PluginRegistration } from "@backplane/session";

export type PluginSubscriber = Pick<PluginRegistration, "name" | "category" | "bundled" | "prefixes">;

interface SubscriberPorts {
  subscriber: PluginSubscriber;
  ports: Map<string, BusPort>;
}

export class PluginSubscriptions {
  readonly #bus: Bus;
  readonly #orgs = new Set<string>();
  readonly #subscribers = new Map<string, SubscriberPorts>();

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  get orgs(): ReadonlySet<string> {
    return this.#orgs;
  }

  subscribeOrg(org_id: string): void {
    this.#orgs.add(org_id);
    for (const subscribed of this.#subscribers.values()) this.#attach(subscribed, org_id);
  }

  /** Returns whether the plugin can keep its existing subscription. */
  canReuse(subscriber: PluginSubscriber): boolean {
    const subscribed = this.#subscribers.get(subscriber.name);
    return subscribed !== undefined && isSameSubscriber(subscribed.subscriber, subscriber);
  }

  /**
   * Subscribes the plugin in every org in use. When the bus rejects one subscription, this throws and
   * removes the others.
   */
  add(subscriber: PluginSubscriber): void {
    if (this.canReuse(subscriber)) return;
    this.release(subscriber.name);
    const subscribed: SubscriberPorts = { subscriber, ports: new Map() };
    try {
      for (const org_id of this.#orgs) this.#attach(subscribed, org_id);
    } catch (error) {
      for (const port of subscribed.ports.values()) port.detach();
      throw error;
    }
    this.#subscribers.set(subscriber.name, subscribed);
  }

  getPort(name: string, org_id: string): BusPort {
    const subscribed = this.#subscribers.get(name);
    if (subscribed === undefined) throw new BackplaneError("cancelled", `${name} is no longer loaded.`);
    return subscribed.ports.get(org_id) ?? this.#attach(subscribed, org_id);
  }

  release(name: string): void {
    const subscribed = this.#subscribers.get(name);
    this.#subscribers.delete(name);
    for (const port of subscribed?.ports.values() ?? []) port.detach();
  }

  #attach({ subscriber, ports }: SubscriberPorts, org_id: string): BusPort {
    const existing = ports.get(org_id);
    if (existing !== undefined) return existing;
    const port = this.#bus.attach({ ...subscriber, scope: { org_id, project_id: null } });
    ports.set(org_id, port);
    return port;
  }
}

function isSameSubscriber(subscriber: PluginSubscriber, other: PluginSubscriber): boolean {
  const identityOf = ({ category, bundled, prefixes }: PluginSubscriber) =>
    JSON.stringify([category, bundled, prefixes]);
  return identityOf(subscriber) === identityOf(other);
}
