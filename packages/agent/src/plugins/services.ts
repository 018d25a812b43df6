/** Kernel services for plugins: who holds which grant, and on whose behalf a call is made. */

import { BackplaneError, type Json, type JsonObject, type PluginEntry } from "@backplane/contract";
import { pluginSettingKey, readPluginSettings } from "@backplane/registry";
import type { MintedCallers } from "./callers.ts";
import type { PluginSystemDeps } from "./plugins-port.ts";

/** What bundled plugins hold without an operator's word; "" is everything. */
const BUNDLED_GRANTS: Readonly<Record<string, string>> = {
  web: "",
  "agent-tool": "subagent.",
  "skill-tool": "skill.",
};

export type ServiceDoor = (entry: PluginEntry, name: string, args: JsonObject, as?: string) => Promise<Json>;

export function createServiceDoor(
  deps: Pick<PluginSystemDeps, "config" | "default_scope" | "services">,
  callers: MintedCallers,
): ServiceDoor {
  async function isGranted(entry: PluginEntry, name: string): Promise<boolean> {
    if (entry.origin === "bundled" && Object.hasOwn(BUNDLED_GRANTS, entry.name)) {
      if (name.startsWith(BUNDLED_GRANTS[entry.name]!)) return true;
    }
    const { services, allowed_domains } = await readPluginSettings(
      deps.config,
      deps.default_scope.org_id,
      entry.name,
    );
    // Whoever is named a domain may ask for it.
    if (name === NET_FETCH && allowed_domains.length > 0) return true;
    return services.some((one) => one === name || (one.endsWith(".*") && name.startsWith(one.slice(0, -1))));
  }

  return async (entry, name, args, as) => {
    // Asked first, so that a plugin without a grant cannot find out which services there are.
    if (!(await isGranted(entry, name))) {
      const fix =
        name === NET_FETCH
          ? `An admin can allow it: list the names in ${pluginSettingKey(entry.name, "allowed_domains")}.`
          : `An admin can allow it: add "${name}" to ${pluginSettingKey(entry.name, "services")}.`;
      throw new BackplaneError("policy.denied", `${entry.name} may not use the kernel service ${name}`, {
        fix,
      });
    }
    const service = deps.services().get(name);
    if (service === undefined) {
      throw new BackplaneError("request.invalid", `there is no kernel service ${name}`);
    }
    return await service(args, callers.resolve(entry.name, as));
  };
}

export const NET_FETCH = "net.fetch";
