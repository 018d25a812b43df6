/** Authorization checks that all operations share, and the channel and audit entries of a caller. */
import { BackplaneError, type KeyScope, ROLES, type Role } from "@backplane/contract";
import type { KernelDeps } from "../kernel/deps.ts";
import type { Caller, Scope } from "../scope/scope.ts";
import type { NewAudit } from "../store/change-records.ts";

/** The actor of the admin token, which represents the operator of the host. */
export const HOST_ADMIN = "admin";

/** Rejects guests, which are read-only, and plugins, which act only through their delegated scopes. */
export function requireOperator(caller: Caller, action: string): void {
  if (caller.delegation !== undefined) {
    throw new BackplaneError("policy.denied", `A plugin's delegated token may not ${action}.`);
  }
  if (caller.role === "guest") throw new BackplaneError("policy.denied", `A guest may not ${action}.`);
}

/**
 * Rejects guests and read_only calls, which act as guests. The API has checked the scopes of a plugin's token, so calls
 * of any other effect class may write.
 */
export function requireWriter(caller: Caller, action: string): void {
  if (caller.role !== "guest") return;
  if (caller.delegation === undefined)
    throw new BackplaneError("policy.denied", `A guest may not ${action}.`);
  throw new BackplaneError("policy.denied", `A read_only call may not ${action}.`, {
    fix: "Declare the effect_class that matches what the tool does, such as idempotent_write.",
  });
}

/** Whether the caller acts for all projects of its org: the host's admin, or a credential without a project. */
export function isWholeOrg({ actor, delegation, scope }: Caller): boolean {
  return delegation === undefined && (actor === HOST_ADMIN || scope.project_id === null);
}

/** A delegated caller keeps the channel of the call that it belongs to, so a plugin cannot leave it. */
export function withChannel(caller: Caller, channel: string): Caller {
  return caller.delegation === undefined ? { ...caller, channel } : caller;
}

/** Only a credential of the whole org may change a resource that all projects of the org use. */
export function requireWholeOrg(caller: Caller, action: string): void {
  requireOperator(caller, action);
  if (isWholeOrg(caller)) return;
  const { org_id, project_id } = caller.scope;
  const message = `A credential of project ${project_id} may not ${action}: that affects all projects of ${org_id}.`;
  throw new BackplaneError("policy.denied", message, {
    fix: "Use the admin token, or a key of the whole organization (created with project_id null).",
    details: { needs: "whole org" },
  });
}

/** For operations that concern the host itself and not one org, such as access to its folders or its network. */
export function requireHostAdmin(caller: Caller, action: string, fix?: string): void {
  if (caller.actor === HOST_ADMIN && caller.delegation === undefined) return;
  throw new BackplaneError(
    "policy.denied",
    `Only the admin token may ${action}.`,
    fix === undefined ? {} : { fix },
  );
}

/**
 * Throws `auth.scope` if the caller does not have the scope. The API requires the scope of the route, and the kernel a
 * second scope that only some requests need. Delegated tokens are also limited by their own scopes.
 */
export function requireScope(caller: Caller, scope: KeyScope): void {
  if (caller.admin || caller.scopes.includes(scope) || caller.scopes.includes("admin")) return;
  throw new BackplaneError("auth.scope", `The credential does not have the required scope: ${scope}.`, {
    details: { needs: scope },
  });
}

/** Whether `role` is at least as powerful as `needed`. ROLES begins with the most powerful role. */
export function hasRole(role: Role, needed: Role): boolean {
  return ROLES.indexOf(role) <= ROLES.indexOf(needed);
}

export function buildAudit(
  deps: Pick<KernelDeps, "ids" | "clock">,
  caller: Caller,
  action: string,
  subject: string,
  details: NewAudit["details"] = {},
  scope: Scope = caller.scope,
): NewAudit {
  return {
    id: deps.ids.next("audit"),
    at: deps.clock.now(),
    scope,
    actor: caller.actor,
    action,
    subject,
    details,
  };
}
