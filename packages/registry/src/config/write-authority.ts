/**
 * Decides who may write which configuration key. The configuration belongs to an org, so every write needs a credential
 * of the whole org; some keys affect more than the org and need more rights. `set`, `unset`, the provider routes and
 * the plugin routes all use these functions.
 */

import { BackplaneError, configPrefixOf } from "@backplane/contract";
import {
  type Caller,
  HOST_ADMIN,
  hasRole,
  isWholeOrg,
  requireHostAdmin,
  requireWholeOrg,
} from "@backplane/ports";
import { coveredSettingFields, PLUGIN_SETTINGS_SCOPE, parsePluginSettingKey } from "./plugin-settings.ts";
import { ALLOW_PRIVATE_FIELD, parseInstanceKey } from "./provider-instances.ts";

export function requireConfigSet(caller: Caller, keys: readonly string[]): void {
  requireWholeOrg(caller, "change the configuration");
  for (const key of keys) {
    const setting = parsePluginSettingKey(key);
    if (setting !== null) requireSetting(caller, setting.field, key);
    if (isAllowPrivateKey(key)) requireAllowPrivate(caller, key);
  }
}

/**
 * `pattern` is a key or `a.b.*`. Removing `allow_private` only narrows what a provider may reach, so it needs no more
 * than any other key.
 */
export function requireConfigUnset(caller: Caller, pattern: string): void {
  requireWholeOrg(caller, "change the configuration");
  const prefix = configPrefixOf(pattern);
  for (const field of coveredSettingFields(prefix ?? pattern, prefix !== null)) {
    requireSetting(caller, field, pattern);
  }
}

/**
 * For enabling, installing, reloading and removing kernel plugins. One instance of a plugin serves every org, so the
 * caller has to be the host's admin or an admin of the whole default organization.
 */
export function requirePluginOperator(caller: Caller, action: string): void {
  const { actor, admin, delegation, role, scope } = caller;
  const is_operator =
    (admin || hasRole(role, "admin")) &&
    scope.org_id === PLUGIN_SETTINGS_SCOPE.org_id &&
    scope.project_id === null;
  if (delegation === undefined && ((admin && actor === HOST_ADMIN) || is_operator)) return;
  throw new BackplaneError("policy.denied", `Only an operator may ${action}.`, {
    fix: "Use the admin token, or an admin's key of the whole default organization.",
  });
}

/** For settings that widen the rights of a kernel plugin: trust, services, routes, domains. */
export function requirePluginAdmin(caller: Caller, action: string): void {
  if (caller.admin && isWholeOrg(caller) && caller.scope.org_id === PLUGIN_SETTINGS_SCOPE.org_id) return;
  throw new BackplaneError(
    "auth.scope",
    `Only an admin credential of the whole default organization may ${action}.`,
    {
      details: { needs: "admin" },
      fix: "Use the admin token, or a key of the whole default organization with the scope admin.",
    },
  );
}

/** Plugin settings are read from the default org only, so a key of that name in another org has no effect. */
function requireSetting(caller: Caller, field: string, key: string): void {
  const is_enabled_field = field === "enabled";
  if (is_enabled_field && caller.scope.org_id !== PLUGIN_SETTINGS_SCOPE.org_id) return;
  if (is_enabled_field) requirePluginOperator(caller, `change ${key}`);
  else requirePluginAdmin(caller, `change ${key}`);
}

function isAllowPrivateKey(key: string): boolean {
  const id = parseInstanceKey(key);
  return id !== null && key === `providers.${id}.${ALLOW_PRIVATE_FIELD}`;
}

function requireAllowPrivate(caller: Caller, key: string): void {
  requireHostAdmin(
    caller,
    `set ${key}: it opens an address of the host's own network`,
    "Ask the operator of the gateway: backplane provider set ID --allow-private.",
  );
}
