/**
 * Checks a plugin's registration. The name of a plugin is the source of its events, and its prefixes own extension
 * kinds. Names and prefixes are therefore unique among plugins whose scopes overlap, and the kernel's names are
 * reserved.
 */

import { BackplaneError, BUNDLED_PREFIXES, PLUGIN_CATEGORIES } from "@backplane/contract";
import type { Scope } from "@backplane/ports";
import type { PluginRegistration } from "./bus-port.ts";

export interface RegisteredPlugin {
  registration: PluginRegistration;
  prefixes: readonly string[];
}

/** Returns the prefixes that the plugin owns from now on. */
export function checkRegistration(
  registration: PluginRegistration,
  registered: Iterable<RegisteredPlugin | null>,
): readonly string[] {
  const { name, category, bundled = false } = registration;
  if (name.length > 64 || !/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name)) {
    throw new BackplaneError(
      "request.invalid",
      `"${name}" is not a valid plugin name; use kebab-case, as in tool-bash.`,
    );
  }
  if (name === "kernel" || name.startsWith("kernel-")) {
    throw new BackplaneError(
      "policy.denied",
      `A plugin cannot be named ${name}: the name is reserved for the kernel.`,
    );
  }
  if (!PLUGIN_CATEGORIES.includes(category)) {
    throw new BackplaneError("request.invalid", `"${String(category)}" is not a valid plugin category.`);
  }
  const prefixes = [...new Set([name, ...(registration.prefixes ?? [])])];
  const reserved: readonly string[] = BUNDLED_PREFIXES;
  for (const prefix of prefixes) {
    if (!bundled && (prefix !== name || reserved.includes(prefix))) {
      throw new BackplaneError("policy.denied", `${name} may not register the prefix x.${prefix}.`, {
        fix: `Publish as x.${name}.<kind>; other prefixes are for bundled plugins.`,
      });
    }
  }
  for (const other of registered) {
    if (other === null || !overlaps(registration.scope, other.registration.scope)) continue;
    const taken = prefixes.find((prefix) => other.prefixes.includes(prefix));
    if (taken === undefined) continue;
    const owner = other.registration.name;
    throw new BackplaneError(
      "policy.denied",
      `${name} may not register x.${taken}: ${owner} owns the prefix.`,
      {
        fix: `Detach ${owner} first, or rename one of the two plugins.`,
      },
    );
  }
  return prefixes;
}

function overlaps(scope: Scope, other: Scope): boolean {
  if (scope.org_id !== other.org_id) return false;
  return scope.project_id === other.project_id || scope.project_id === null || other.project_id === null;
}
