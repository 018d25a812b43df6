/** Why work may not go on although it was allowed to begin: a key, a role, a binding or a project was taken away. */

import { BackplaneError, type ErrorCode, type ErrorDetails, type Role } from "@backplane/contract";
import type { EffectivePolicy } from "@backplane/registry";

export interface Revocation {
  code: ErrorCode;
  message: string;
  details: ErrorDetails;
  fix: string;
}

/** Who is behind a call or a turn once delegated calls are followed back to whoever began them. */
export interface Standing {
  /** `admin`, `key_…`, `plugin:…` or `kernel`; never an invocation that is on record. */
  root: string;
  /** Of the root: the role of a delegated call is derived, and nobody disables that. */
  role: Role;
  /** The key, or a binding between the root and the call, is gone. */
  revoked: Revocation | null;
}

/** The gateway's own deliveries have no role that an operator gave. */
const KERNEL = "kernel";

/** For questions about a caller who was authenticated a moment ago. */
export function assumeStanding({ actor, role }: { actor: string; role: Role }): Standing {
  return { root: actor, role, revoked: null };
}

/** What the policy takes away, whoever the caller is. */
export function revokedByPolicy(
  policy: Pick<EffectivePolicy, "archived" | "disabled_roles">,
  { root, role }: Pick<Standing, "root" | "role">,
): Revocation | null {
  if (policy.archived !== null) {
    const level = policy.archived;
    return {
      code: "authority.project_archived",
      message: level === "org" ? "the org is archived" : "the project is archived",
      details: { level },
      fix: `An admin opens it again: backplane policy set archived false --level ${level}`,
    };
  }
  if (root !== KERNEL && policy.disabled_roles.has(role)) {
    return {
      code: "authority.role_disabled",
      message: `the role ${role} of ${root} is disabled`,
      details: { role },
      fix: `An admin enables it again: backplane policy set roles.${role}.disabled false`,
    };
  }
  return null;
}

export function revocationError({ code, message, details, fix }: Revocation): BackplaneError {
  return new BackplaneError(code, message, { details, fix });
}
