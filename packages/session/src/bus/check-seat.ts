/**
 * May this plugin take its seat? Names are sources and prefixes are owners, so in the places where two plugins can
 * meet each is unique, none looks like the kernel, and nobody takes a prefix that is not its own.
 */

import { BackplaneError, BUNDLED_PREFIXES, PLUGIN_CATEGORIES } from "@backplane/contract";
import type { Scope } from "@backplane/ports";
import type { PluginSeat } from "./bus-port.ts";

interface Seated {
  seat: PluginSeat;
  prefixes: readonly string[];
}

/** The prefixes that the plugin now owns. */
export function checkSeat(seat: PluginSeat, others: readonly (Seated | null)[]): readonly string[] {
  const { name, category, bundled = false } = seat;
  if (name.length > 64 || !/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name)) {
    throw new BackplaneError("request.invalid", `"${name}" is no plugin name: write it as in tool-bash`);
  }
  if (name === "kernel" || name.startsWith("kernel-")) {
    throw new BackplaneError(
      "policy.denied",
      `a plugin may not be called ${name}: that is the kernel's own name`,
    );
  }
  if (!PLUGIN_CATEGORIES.includes(category)) {
    throw new BackplaneError("request.invalid", `"${String(category)}" is no plugin category`);
  }
  const prefixes = [...new Set([name, ...(seat.prefixes ?? [])])];
  const reserved: readonly string[] = BUNDLED_PREFIXES;
  for (const prefix of prefixes) {
    if (!bundled && (prefix !== name || reserved.includes(prefix))) {
      throw new BackplaneError("policy.denied", `${name} may not register the prefix x.${prefix}`, {
        fix: `Publish as x.${name}.<kind>; other prefixes are for bundled plugins.`,
      });
    }
  }
  for (const other of others) {
    if (other === null || !meet(seat.scope, other.seat.scope)) continue;
    const taken = prefixes.find((prefix) => other.prefixes.includes(prefix));
    if (taken === undefined) continue;
    throw new BackplaneError(
      "policy.denied",
      `${name} may not register x.${taken}: ${other.seat.name} owns it`,
      {
        fix: "Detach the plugin that owns it first, or rename one of them.",
      },
    );
  }
  return prefixes;
}

function meet(one: Scope, other: Scope): boolean {
  if (one.org_id !== other.org_id) return false;
  return one.project_id === other.project_id || one.project_id === null || other.project_id === null;
}
