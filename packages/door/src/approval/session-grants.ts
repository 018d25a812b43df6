/**
 * Approvals for a whole session, kept in memory only. A grant is valid for one session with its sub-agents, one
 * identity and one digest. The digest covers the whole call, or the call without its arguments if the approval is for
 * the tool. Another caller that uses the session id needs its own approval. A grant ends immediately when it is revoked
 * or when the approver's key is revoked.
 */

import { AGENT_SEPARATOR, type Approval, type ApprovalGrant, BackplaneError } from "@backplane/contract";
import type { InvocationRow, KernelDeps, Scope } from "@backplane/ports";
import type { Principal } from "../authority/authority.ts";
import { workspaceOfCall } from "../calls/call-ids.ts";

const MAX_GRANTS = 10_000;

/** The session of a call, and the identity at the root of its chain of calls. */
export interface SessionCall {
  scope: Scope;
  workspace: string;
  session_id: string;
  /** A key, the admin token or an adapter. */
  identity: string;
}

/** Null for a call without a session. */
export function toSessionCall(row: InvocationRow, identity: string): SessionCall | null {
  const { org_id, project_id, session_id } = row;
  if (session_id === null) return null;
  return { scope: { org_id, project_id }, workspace: workspaceOfCall(row), session_id, identity };
}

export interface SessionGrant {
  grant: ApprovalGrant;
  approver: Principal;
}

export class SessionGrants {
  readonly #deps: Pick<KernelDeps, "ids" | "clock">;
  readonly #by_key = new Map<string, SessionGrant>();

  constructor(deps: Pick<KernelDeps, "ids" | "clock">) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#by_key.size;
  }

  /** Finds the grant with this digest for the call's session or a session that spawned it; null if there is none. */
  find(call: SessionCall, digest: string): SessionGrant | null {
    for (let id = call.session_id; ; id = id.slice(0, id.lastIndexOf(AGENT_SEPARATOR))) {
      const session_grant = this.#by_key.get(joinKey({ ...call, session_id: id }, digest));
      if (session_grant !== undefined) return session_grant;
      if (!id.includes(AGENT_SEPARATOR)) return null;
    }
  }

  remember(
    approval: Approval,
    call: SessionCall,
    approver: Principal,
    { covers, digest }: Pick<ApprovalGrant, "covers" | "digest">,
  ): void {
    const grant: ApprovalGrant = {
      id: this.#deps.ids.next("approval_grant"),
      session_id: call.session_id,
      org_id: approval.org_id,
      project_id: approval.project_id,
      tool: approval.tool,
      covers,
      digest,
      max_risk: approval.risk,
      granted_to: call.identity,
      granted_by: approver.actor,
      granted_at: new Date(this.#deps.clock.now()).toISOString(),
    };
    this.#by_key.set(joinKey(call, digest), { grant, approver });
    if (this.#by_key.size > MAX_GRANTS) this.#by_key.delete(this.#by_key.keys().next().value as string);
  }

  list(scope: Scope): ApprovalGrant[] {
    return [...this.#by_key.values()].flatMap(({ grant }) => (isVisible(scope, grant) ? [grant] : []));
  }

  revoke(scope: Scope, id: string): ApprovalGrant {
    for (const [key, { grant }] of this.#by_key) {
      if (grant.id === id && isVisible(scope, grant)) {
        this.#by_key.delete(key);
        return grant;
      }
    }
    throw new BackplaneError("approval.not_found", `There is no session grant ${id}.`);
  }
}

function joinKey({ scope, workspace, session_id, identity }: SessionCall, digest: string): string {
  return JSON.stringify([scope.org_id, scope.project_id, workspace, session_id, identity, digest]);
}

function isVisible(scope: Scope, grant: ApprovalGrant): boolean {
  return (
    grant.org_id === scope.org_id && (scope.project_id === null || grant.project_id === scope.project_id)
  );
}
