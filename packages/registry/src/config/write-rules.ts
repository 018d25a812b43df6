/**
 * Who may write which configuration key. The configuration belongs to an org, so every write takes a credential of the
 * whole org; some keys reach further and take more. `set`, `unset` and the provider routes all ask here.
 */

import { BackplaneError, configPrefixOf } from "@backplane/contract";
import { type Caller, HOST_ADMIN, requireWholeOrg } from "@backplane/ports";
import { requirePluginAdmin, requirePluginOperator } from "./plugin-authority.ts";
import { coveredSettingFields, PLUGIN_SETTINGS_SCOPE, parsePluginSettingKey } from "./plugin-settings.ts";
import { ALLOW_PRIVATE_FIELD, parseInstanceKey } from "./provider-instances.ts";

export function requireConfigSet(caller: Caller, keys: readonly string[]): void {
  requireWholeOrg(caller, "change the configuration");
  for (const key of keys) {
    const setting = parsePluginSettingKey(key);
    if (setting !== null) requireSetting(caller, setting.field, key);
    if (isAllowPrivateKey(key)) requireHostAdmin(caller, key);
  }
}

/** `pattern`: a key, or `a.b.*`. Removing a permission narrows, so `allow_private` needs no more than the rest. */
export function requireConfigUnset(caller: Caller, pattern: string): void {
  requireWholeOrg(caller, "change the configuration");
  const prefix = configPrefixOf(pattern);
  for (const field of coveredSettingFields(prefix ?? pattern, prefix !== null)) {
    requireSetting(caller, field, pattern);
  }
}

/** Settings of plugins are read from the default org alone; another org's keys of that name change nothing there. */
function requireSetting(caller: Caller, field: string, key: string): void {
  const enabled = field === "enabled";
  if (enabled && caller.scope.org_id !== PLUGIN_SETTINGS_SCOPE.org_id) return;
  if (enabled) requirePluginOperator(caller, `change ${key}`);
  else requirePluginAdmin(caller, `change ${key}`);
}

function isAllowPrivateKey(key: string): boolean {
  const id = parseInstanceKey(key);
  return id !== null && key === `providers.${id}.${ALLOW_PRIVATE_FIELD}`;
}

function requireHostAdmin(caller: Caller, key: string): void {
  if (caller.actor === HOST_ADMIN && caller.delegation === undefined) return;
  throw new BackplaneError(
    "policy.denied",
    `only the admin token may set ${key}: it opens an address of the host's own network`,
    { fix: "Ask whoever runs the gateway: backplane provider set ID --allow-private." },
  );
}
