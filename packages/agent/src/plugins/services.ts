/** Access of plugins to kernel services: which plugin may use which service, and on whose behalf. */

import { randomBytes } from "node:crypto";
import { BackplaneError, IdTable, type Json, type JsonObject, type PluginEntry } from "@backplane/contract";
import type { Scope } from "@backplane/ports";
import { pluginSettingKey, readPluginSettings } from "@backplane/registry";
import type { Callers, PluginSystemDeps, ServiceIdentity } from "./plugins-port.ts";

/**
 * For each bundled plugin, the prefix of the services that it may use without a setting by the operator. An empty prefix
 * matches every service.
 */
const BUNDLED_SERVICE_PREFIXES: Readonly<Record<string, string>> = {
  web: "",
  "agent-tool": "subagent.",
  "memory-sqlite": "embedding.",
  "pin-tool": "pin.",
  "skill-tool": "skill.",
};

export type ServiceAccess = (
  entry: PluginEntry,
  name: string,
  args: JsonObject,
  as?: string,
  scope?: Scope,
) => Promise<Json>;

export function createServiceAccess(
  deps: Pick<PluginSystemDeps, "config" | "default_scope" | "services">,
  callers: MintedCallers,
): ServiceAccess {
  async function isAllowed(entry: PluginEntry, name: string): Promise<boolean> {
    if (entry.origin === "bundled" && Object.hasOwn(BUNDLED_SERVICE_PREFIXES, entry.name)) {
      if (name.startsWith(BUNDLED_SERVICE_PREFIXES[entry.name]!)) return true;
    }
    const { services, allowed_domains } = await readPluginSettings(
      deps.config,
      deps.default_scope.org_id,
      entry.name,
    );
    // A plugin with allowed domains needs no separate setting for net.fetch.
    if (name === NET_FETCH && allowed_domains.length > 0) return true;
    return services.some(
      (service) => service === name || (service.endsWith(".*") && name.startsWith(service.slice(0, -1))),
    );
  }

  return async (entry, name, args, as, scope) => {
    // Permission is checked first, so that a plugin without it cannot find out which services exist.
    if (!(await isAllowed(entry, name))) {
      const fix =
        name === NET_FETCH
          ? `An admin can allow it: list the domains in ${pluginSettingKey(entry.name, "allowed_domains")}.`
          : `An admin can allow it: add "${name}" to ${pluginSettingKey(entry.name, "services")}.`;
      throw new BackplaneError("policy.denied", `${entry.name} may not use the kernel service ${name}.`, {
        fix,
      });
    }
    const service = deps.services().get(name);
    if (service === undefined) {
      throw new BackplaneError("request.invalid", `There is no kernel service ${name}.`);
    }
    const identity = callers.resolve(entry.name, as);
    return await service(args, as === undefined && scope !== undefined ? { ...identity, scope } : identity);
  };
}

export const NET_FETCH = "net.fetch";

const TOKEN_BYTES = 18;

/**
 * Short-lived handles for the callers of plugins. A handle is valid for one plugin and until its call has
 * ended.
 */
export class MintedCallers implements Callers {
  readonly #minted = new IdTable<ServiceIdentity>();

  get size(): number {
    return this.#minted.size;
  }

  mint(identity: ServiceIdentity): { as: string; end(): void } {
    const as = `as_${randomBytes(TOKEN_BYTES).toString("base64url")}`;
    this.#minted.set(as, identity);
    return { as, end: () => void this.#minted.delete(as) };
  }

  resolve(plugin: string, as: string | undefined): ServiceIdentity {
    if (as === undefined) return { plugin, caller: null, call: null };
    const identity = this.#minted.get(as);
    if (identity !== undefined && identity.plugin === plugin) return identity;
    throw new BackplaneError("auth.invalid", "This `as` is unknown, or its request or call has ended.", {
      fix: "Pass the `as` of the request or call that the plugin is serving, before it is answered.",
    });
  }
}
