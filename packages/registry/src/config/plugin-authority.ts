/**
 * Who decides about kernel plugins. One instance of a plugin serves every org, so a change takes the host's admin or the
 * default org as a whole. The plugin routes and the configuration keys `plugin.<ns>.*` ask the same functions.
 */

import { BackplaneError } from "@backplane/contract";
import { atLeast, type Caller, HOST_ADMIN, isWholeOrg } from "@backplane/ports";
import { PLUGIN_SETTINGS_SCOPE } from "./plugin-settings.ts";

/** For enabling, installing, reloading and removing. */
export function requirePluginOperator(caller: Caller, what: string): void {
  const { actor, admin, delegation, role, scope } = caller;
  const operator =
    (admin || atLeast(role, "admin")) &&
    scope.org_id === PLUGIN_SETTINGS_SCOPE.org_id &&
    scope.project_id === null;
  if (delegation === undefined && ((admin && actor === HOST_ADMIN) || operator)) return;
  throw new BackplaneError("policy.denied", `only an operator may ${what}`, {
    fix: "Use the admin token, or an admin's key of the whole default org.",
  });
}

/** For what widens the rights of a plugin: trust, services, routes, domains. */
export function requirePluginAdmin(caller: Caller, what: string): void {
  if (caller.admin && isWholeOrg(caller) && caller.scope.org_id === PLUGIN_SETTINGS_SCOPE.org_id) return;
  throw new BackplaneError("auth.scope", `Only an admin credential of the whole default org may ${what}.`, {
    details: { needs: "admin" },
    fix: "Use the admin token, or a key of the whole default org with the scope admin.",
  });
}
