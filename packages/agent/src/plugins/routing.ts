/**
 * Selects the subscribed events that are meant for a plugin (plug.extras). A model call goes to the plugin that owns
 * the provider instance, a decision to the strategy of the turn, and a memory event to the stores that it lists, or to
 * all stores if it lists none. A tool call never reaches a tool plugin over the bus, because tools run through the
 * door.
 */
import { type BusEvent, LOOP_LIMITS } from "@backplane/contract";
import type { InstanceOwners } from "../providers/owners.ts";
import type { Instance } from "./instance.ts";

/** Returns a promise only when the owner of a provider instance has to be read first (benchmark bus.dispatch). */
export function isMeantFor(
  instance: Instance,
  event: BusEvent,
  owners: InstanceOwners,
): boolean | Promise<boolean> {
  switch (instance.entry.category) {
    case "tool":
      return event.kind !== "tool.call.request";
    case "strategy":
      return event.kind !== "strategy.decide.request" || strategyOfEvent(event) === strategyIdOf(instance);
    case "llm-provider":
      return event.kind !== "llm.call.request" || ownsProvider(instance, event, owners);
    case "memory":
      return !event.kind.startsWith("memory.") || isAddressedStore(instance, event);
    case "adapter":
    case "skill":
      return true;
  }
}

function isAddressedStore({ name }: Instance, { payload }: BusEvent): boolean {
  const { stores } = payload as { stores?: unknown };
  return !Array.isArray(stores) || stores.includes(name);
}

export function strategyIdOf({ plugin }: Instance): string {
  return plugin.strategyId ?? plugin.name;
}

function strategyOfEvent({ payload }: BusEvent): string {
  const { strategy, state } = payload as { strategy?: unknown; state?: { strategy?: unknown } };
  const chosen = strategy ?? state?.strategy;
  return typeof chosen === "string" ? chosen : LOOP_LIMITS.default_strategy;
}

function ownsProvider(
  { name, plugin }: Instance,
  event: BusEvent,
  owners: InstanceOwners,
): boolean | Promise<boolean> {
  const { provider } = event.payload as { provider?: unknown };
  if (typeof provider !== "string") return false;
  const isOwner = (owner: string | null) =>
    owner === null ? provider === plugin.providerId : owner === name;
  const owner = owners.find(event.org_id, provider);
  return owner instanceof Promise ? owner.then(isOwner) : isOwner(owner);
}
