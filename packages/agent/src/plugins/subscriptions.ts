/**
 * The subscription of each plugin to the bus, with one port per org. A subscription outlives a reload, so
 * that calls that still run in the old instance can publish their answers while the new instance already
 * receives events.
 */

import { BackplaneError } from "@backplane/contract";
import type { Bus, BusPort, PluginRegistration } from "@backplane/session";

export type PluginSubscriber = Pick<PluginRegistration, "name" | "category" | "bundled" | "prefixes">;

interface HeldSubscriber {
  subscriber: PluginSubscriber;
  ports: Map<string, BusPort>;
}

export class PluginSubscriptions {
  readonly #bus: Bus;
  readonly #orgs = new Set<string>();
  readonly #held = new Map<string, HeldSubscriber>();

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  get orgs(): ReadonlySet<string> {
    return this.#orgs;
  }

  enter(org_id: string): void {
    this.#orgs.add(org_id);
    for (const held of this.#held.values()) this.#attach(held, org_id);
  }

  /** Returns whether the plugin can keep its existing subscription. */
  fits(subscriber: PluginSubscriber): boolean {
    const held = this.#held.get(subscriber.name);
    return held !== undefined && isSameSubscriber(held.subscriber, subscriber);
  }

  /**
   * Subscribes the plugin in every entered org. When the bus refuses one subscription, this throws and
   * removes the others.
   */
  add(subscriber: PluginSubscriber): void {
    if (this.fits(subscriber)) return;
    this.release(subscriber.name);
    const held: HeldSubscriber = { subscriber, ports: new Map() };
    try {
      for (const org_id of this.#orgs) this.#attach(held, org_id);
    } catch (error) {
      for (const port of held.ports.values()) port.detach();
      throw error;
    }
    this.#held.set(subscriber.name, held);
  }

  port(name: string, org_id: string): BusPort {
    const held = this.#held.get(name);
    if (held === undefined) throw new BackplaneError("cancelled", `${name} is no longer loaded.`);
    return held.ports.get(org_id) ?? this.#attach(held, org_id);
  }

  release(name: string): void {
    const held = this.#held.get(name);
    this.#held.delete(name);
    for (const port of held?.ports.values() ?? []) port.detach();
  }

  #attach({ subscriber, ports }: HeldSubscriber, org_id: string): BusPort {
    const known = ports.get(org_id);
    if (known !== undefined) return known;
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
