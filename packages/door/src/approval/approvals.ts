/** Answers to approvals. The row decides: only a pending one, only for the digest that was shown, only once. */

import { type Approval, type ApprovalAnswer, BackplaneError } from "@backplane/contract";
import { auditOf, type Caller, type Kernel, type KernelDeps, requireOperator } from "@backplane/ports";
import type { Authority } from "../authority/authority.ts";
import { BUS_ACTOR } from "./approval-events.ts";
import { type ApprovalNews, type PendingApprovals, resolveApproval } from "./pending.ts";
import { type SessionCall, type SessionGrants, sessionCallOf } from "./session-grants.ts";

export function createApprovals(
  deps: KernelDeps,
  pending: PendingApprovals,
  grants: SessionGrants,
  news: Pick<ApprovalNews, "answered">,
  authority: Authority,
): Kernel["approvals"] {
  const { store } = deps;

  async function get(caller: Caller, id: string): Promise<Approval> {
    const approval = await store.approvals.get(caller.scope, id);
    if (approval === null) throw new BackplaneError("approval.not_found");
    return approval;
  }

  /** The gateway that carries the call ends it; here its answer only finds nothing to run. */
  async function requireAsker({ org_id, project_id, invocation_id }: Approval): Promise<SessionCall | null> {
    const scope = { org_id, project_id };
    const row = await store.invocations.get(scope, invocation_id);
    if (row === null) return null;
    const asker = { actor: row.requested_by, role: row.role, scope };
    await authority.require(asker);
    return sessionCallOf(row, (await authority.standingOf(asker)).root);
  }

  async function answer(caller: Caller, id: string, body: ApprovalAnswer): Promise<Approval> {
    requireOperator(caller, "answer approvals");
    const approval = await get(caller, id);
    if (approval.status !== "pending") throw closed(approval);
    // Both sides of the question: who answers, and whoever the call would run for.
    await authority.require(caller);
    const call = body.response === "reject" ? null : await requireAsker(approval);
    if (body.digest !== undefined && body.digest !== approval.digest) {
      throw new BackplaneError("approval.changed", "the answer is for other arguments than the approval's", {
        fix: `Read the approval again (backplane approve show ${id}), and answer with its digest.`,
      });
    }
    if (body.response === "approve_for_session" && approval.session_id === null) {
      const message = "the call belongs to no session, so it can only be approved once";
      throw new BackplaneError("request.invalid", message, {
        details: { issues: [{ path: "body.response", message }] },
        fix: "Answer with approve.",
      });
    }
    const rejected = body.response === "reject";
    const feedback = body.feedback ?? null;
    const won = await resolveApproval(deps, approval, {
      status: rejected ? "rejected" : "approved",
      response: body.response,
      feedback,
      answered_by: caller.actor,
    });
    if (!won) throw closed(await get(caller, id));
    if (body.response === "approve_for_session" && call !== null) grants.remember(approval, call, caller);
    pending.tell(id, rejected ? { kind: "rejected", feedback } : { kind: "approved" });
    if (!caller.actor.startsWith(BUS_ACTOR)) news.answered(approval, body.response);
    return await get(caller, id);
  }

  return {
    get,
    list: (caller, filter, page) => store.approvals.list(caller.scope, filter, page),
    answer,
    grants: (caller) => grants.list(caller.scope),
    revokeGrant: async (caller, id) => {
      requireOperator(caller, "revoke session grants");
      // Revoked first: a store that is away must not keep it alive.
      const { tool, session_id, digest, org_id, project_id } = grants.revoke(caller.scope, id);
      const about = { tool, session_id, digest };
      await store.audit.append(
        auditOf(deps, caller, "approval_grant.revoke", id, about, { org_id, project_id }),
      );
    },
  };
}

function closed(approval: Approval): BackplaneError {
  return new BackplaneError("approval.closed", `the approval is ${approval.status} already`, {
    details: { status: approval.status },
  });
}
