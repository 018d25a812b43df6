/** Why work that was admitted may not continue: its key, role, binding, project or organization is no longer valid. */

import { BackplaneError, type ErrorCode, type ErrorDetails, type Role } from "@backplane/contract";
import type { EffectivePolicy } from "@backplane/registry";

export interface Revocation {
  code: ErrorCode;
  message: string;
  details: ErrorDetails;
  fix: string;
}

/** The caller at the root of a chain of delegated calls: the one that made the first call. */
export interface RootCaller {
  /** `admin`, `key_…`, `plugin:…` or `kernel`; an invocation only if `revoked` is set. */
  actor: string;
  /** The role of the root. The role of a delegated call is derived, and no operator can disable it. */
  role: Role;
  /** Set when the key was revoked or has expired, or when a binding between the root and the call was revoked. */
  revoked: Revocation | null;
}

/** The actor of the gateway's own deliveries, whose role no operator assigned and none can disable. */
const KERNEL = "kernel";

/** The root of a caller that has just been authenticated, without a read from the store. */
export function assumeValidRoot({ actor, role }: { actor: string; role: Role }): RootCaller {
  return { actor, role, revoked: null };
}

/** The policy revokes everything in an archived org or project, and everything that a disabled role started. */
export function findPolicyRevocation(
  policy: Pick<EffectivePolicy, "archived" | "disabled_roles">,
  { actor, role }: Pick<RootCaller, "actor" | "role">,
): Revocation | null {
  if (policy.archived !== null) {
    const level = policy.archived;
    const archived = level === "org" ? "organization" : level;
    return {
      code: "authority.project_archived",
      message: `The ${archived} is archived.`,
      details: { level },
      fix: `An admin can restore it: backplane policy set archived false --level ${level}`,
    };
  }
  if (actor !== KERNEL && policy.disabled_roles.has(role)) {
    return {
      code: "authority.role_disabled",
      message: `The role ${role} of ${actor} is disabled.`,
      details: { role },
      fix: `An admin can enable it: backplane policy set roles.${role}.disabled false`,
    };
  }
  return null;
}

export function revocationError({ code, message, details, fix }: Revocation): BackplaneError {
  return new BackplaneError(code, message, { details, fix });
}
