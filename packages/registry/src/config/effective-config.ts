/** The configuration that a plugin gets. */
import type { JsonObject } from "@backplane/contract";
import type { BoundPackage, HostPolicy } from "@backplane/ports";
import { PLUGIN_SETTINGS_SCOPE } from "./plugin-settings.ts";

/**
 * An instrument plugin of the host's own organization also gets the settings that the host's administrator wrote for
 * its plugin id; those of the binding override them. Other organizations can install a plugin under any id, so they
 * get none of these settings.
 */
export function effectiveConfig(
  { instrument_settings }: Pick<HostPolicy, "instrument_settings">,
  { binding, package: pack }: Pick<BoundPackage, "binding" | "package">,
): JsonObject {
  const { instrument } = pack.manifest.runtime;
  if (instrument === undefined || binding.scope.org_id !== PLUGIN_SETTINGS_SCOPE.org_id)
    return binding.config;
  const settings = instrument_settings?.get(instrument.plugin_id);
  return settings === undefined ? binding.config : { ...settings, ...binding.config };
}
