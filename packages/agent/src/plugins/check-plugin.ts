/**
 * Is this what its package.json says, and does it leave the others their names? A module is believed only where it
 * agrees with the entry that was read without running it (plug.trust).
 */
import { BackplaneError, isBusKind, type KernelPlugin, type PluginEntry } from "@backplane/contract";
import type { Instance } from "./instance.ts";
import { strategyIdOf } from "./routing.ts";

const PATTERN = /^(\*|[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*(\.\*)?)$/;

/** Throws `plugin.invalid`. */
export function checkPlugin(entry: PluginEntry, plugin: KernelPlugin): void {
  if (typeof plugin !== "object" || plugin === null) throw invalid(`${entry.name} exports no plugin`);
  const { name, category, version, requires = [], prefixes = [], routes = [] } = plugin;
  if (name !== entry.name) throw invalid(`the module calls itself ${name}, its package.json ${entry.name}`);
  if (category !== entry.category) {
    throw invalid(`the module's category is ${category}, its package.json says ${entry.category}`);
  }
  if (typeof version !== "string" || version === "") throw invalid(`${name} has no version`);
  for (const [field, list] of Object.entries({ requires, prefixes })) {
    if (!isStrings(list)) throw invalid(`${field} of ${name} is no list of names`);
  }
  if (!Array.isArray(routes)) throw invalid(`routes of ${name} is no list`);
  if (routes.length > 0 && (category !== "adapter" || typeof plugin.onRequest !== "function")) {
    throw invalid(`${name} has routes, which take category adapter and onRequest()`);
  }
  if (typeof plugin.subscriptions !== "function") throw invalid(`${name} has no subscriptions()`);
}

/** Throws `plugin.invalid`; answers public kinds that do not exist, which is worth a warning only. */
export function checkKinds(name: string, kinds: readonly string[]): string[] {
  if (!isStrings(kinds)) throw invalid(`subscriptions() of ${name} gave no list of kinds`);
  const odd = kinds.find((kind) => !PATTERN.test(kind));
  if (odd !== undefined)
    throw invalid(`${name} subscribes to ${JSON.stringify(odd)}, which is no kind or pattern`);
  return kinds.filter((kind) => !kind.endsWith("*") && !kind.startsWith("x.") && !isBusKind(kind));
}

/** Throws when another loaded plugin has the same strategy, provider or adapter id: the first one keeps it. */
export function checkIds(instance: Instance, others: Iterable<Instance>): void {
  const mine = idsOf(instance);
  for (const other of others) {
    if (other.name === instance.name) continue;
    const taken = idsOf(other).find((id) => mine.includes(id));
    if (taken !== undefined) throw invalid(`the ${taken} is taken by ${other.name}`);
  }
}

function idsOf(instance: Instance): string[] {
  const { category, providerId, adapterId } = instance.plugin;
  if (category === "strategy") return [`strategy_id ${strategyIdOf(instance)}`];
  if (category === "llm-provider" && providerId !== undefined) return [`provider_id ${providerId}`];
  return category === "adapter" && adapterId !== undefined ? [`adapter_id ${adapterId}`] : [];
}

function isStrings(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

function invalid(message: string): BackplaneError {
  return new BackplaneError("plugin.invalid", message, {
    fix: "Correct the plugin's module or its package.json.",
  });
}
