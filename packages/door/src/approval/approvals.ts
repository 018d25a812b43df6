/** Answers to approvals. A row is answered once, while it is pending, and only for the digest that the person saw. */

import { type Approval, type ApprovalAnswer, BackplaneError } from "@backplane/contract";
import { auditOf, type Caller, type Kernel, type KernelDeps, requireOperator } from "@backplane/ports";
import type { Authority } from "../authority/authority.ts";
import { BUS_ACTOR } from "./approval-events.ts";
import { type ApprovalPublisher, endApproval, type PendingApprovals } from "./pending-approvals.ts";
import { type SessionCall, type SessionGrants, sessionCallOf } from "./session-grants.ts";

export function createApprovals(
  deps: KernelDeps,
  pending: PendingApprovals,
  grants: SessionGrants,
  publisher: Pick<ApprovalPublisher, "answered">,
  authority: Authority,
): Kernel["approvals"] {
  const { store } = deps;

  async function get(caller: Caller, id: string): Promise<Approval> {
    const approval = await store.approvals.get(caller.scope, id);
    if (approval === null) throw new BackplaneError("approval.not_found");
    return approval;
  }

  /** Requires that the caller of the waiting call is still authorized. The gateway that owns the call ends it otherwise. */
  async function requireRequester({
    org_id,
    project_id,
    invocation_id,
  }: Approval): Promise<SessionCall | null> {
    const scope = { org_id, project_id };
    const row = await store.invocations.get(scope, invocation_id);
    if (row === null) return null;
    const requester = { actor: row.requested_by, role: row.role, scope };
    await authority.require(requester);
    return sessionCallOf(row, (await authority.resolveRoot(requester)).actor);
  }

  async function answer(caller: Caller, id: string, body: ApprovalAnswer): Promise<Approval> {
    requireOperator(caller, "answer approvals");
    const approval = await get(caller, id);
    if (approval.status !== "pending") throw closed(approval);
    // Both must still be authorized: the person who answers and the caller that the call would run for.
    await authority.require(caller);
    const call = body.response === "reject" ? null : await requireRequester(approval);
    if (body.digest !== undefined && body.digest !== approval.digest) {
      throw new BackplaneError(
        "approval.changed",
        "The digest of the answer is not the digest of the approval.",
        {
          fix: `Read the approval again (backplane approve show ${id}), and answer with its digest.`,
        },
      );
    }
    if (body.response === "approve_for_session" && approval.session_id === null) {
      const message = "The call belongs to no session, so it can be approved only once.";
      throw new BackplaneError("request.invalid", message, {
        details: { issues: [{ path: "body.response", message }] },
        fix: "Answer with approve.",
      });
    }
    const rejected = body.response === "reject";
    const feedback = body.feedback ?? null;
    const won = await endApproval(deps, approval, {
      status: rejected ? "rejected" : "approved",
      response: body.response,
      feedback,
      answered_by: caller.actor,
    });
    if (!won) throw closed(await get(caller, id));
    if (body.response === "approve_for_session" && call !== null) grants.remember(approval, call, caller);
    pending.resolve(id, rejected ? { kind: "rejected", feedback } : { kind: "approved" });
    if (!caller.actor.startsWith(BUS_ACTOR)) publisher.answered(approval, body.response);
    return await get(caller, id);
  }

  return {
    get,
    list: (caller, filter, page) => store.approvals.list(caller.scope, filter, page),
    answer,
    grants: (caller) => grants.list(caller.scope),
    revokeGrant: async (caller, id) => {
      requireOperator(caller, "revoke session grants");
      // Revoked before the audit entry is written, so that an unavailable store does not keep the grant alive.
      const { tool, session_id, digest, org_id, project_id } = grants.revoke(caller.scope, id);
      const about = { tool, session_id, digest };
      await store.audit.append(
        auditOf(deps, caller, "approval_grant.revoke", id, about, { org_id, project_id }),
      );
    },
  };
}

function closed(approval: Approval): BackplaneError {
  return new BackplaneError("approval.closed", `The approval is already ${approval.status}.`, {
    details: { status: approval.status },
  });
}
