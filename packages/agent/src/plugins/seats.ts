/**
 * One seat at the bus for each plugin and org. A seat outlives a reload, so that what still runs in the old instance
 * can publish its answers while the new one already gets the events.
 */

import { BackplaneError } from "@backplane/contract";
import type { Bus, BusPort, PluginRegistration } from "@backplane/session";

export type Chair = Pick<PluginRegistration, "name" | "category" | "bundled" | "prefixes">;

interface Held {
  chair: Chair;
  ports: Map<string, BusPort>;
}

export class Seats {
  readonly #bus: Bus;
  readonly #orgs = new Set<string>();
  readonly #held = new Map<string, Held>();

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

  /** Whether the plugin could go on in the seats that it has. */
  fits(chair: Chair): boolean {
    const held = this.#held.get(chair.name);
    return held !== undefined && sameChair(held.chair, chair);
  }

  /** In every org that was entered. Throws when the bus does not want the plugin, and then it has no seat at all. */
  take(chair: Chair): void {
    if (this.fits(chair)) return;
    this.release(chair.name);
    const held: Held = { chair, ports: new Map() };
    try {
      for (const org_id of this.#orgs) this.#attach(held, org_id);
    } catch (error) {
      for (const port of held.ports.values()) port.detach();
      throw error;
    }
    this.#held.set(chair.name, held);
  }

  port(name: string, org_id: string): BusPort {
    const held = this.#held.get(name);
    if (held === undefined) throw new BackplaneError("cancelled", `${name} is no longer loaded`);
    return held.ports.get(org_id) ?? this.#attach(held, org_id);
  }

  release(name: string): void {
    const held = this.#held.get(name);
    this.#held.delete(name);
    for (const port of held?.ports.values() ?? []) port.detach();
  }

  #attach({ chair, ports }: Held, org_id: string): BusPort {
    const known = ports.get(org_id);
    if (known !== undefined) return known;
    const port = this.#bus.attach({ ...chair, scope: { org_id, project_id: null } });
    ports.set(org_id, port);
    return port;
  }
}

function sameChair(one: Chair, other: Chair): boolean {
  const spell = ({ category, bundled, prefixes }: Chair) => JSON.stringify([category, bundled, prefixes]);
  return spell(one) === spell(other);
}
