/**
 * Approvals and session grants as clients see them. An approval is answered once, while it is pending. An answer that
 * contains a digest is accepted only if that is the digest of the approval.
 */

import {
  type AnswerCoverage,
  type Approval,
  type ApprovalAnswer,
  type ApprovalGrant,
  BackplaneError,
} from "@backplane/contract";
import {
  type AllowRuleRow,
  buildAudit,
  type Caller,
  type ChangeRecords,
  type InvocationRow,
  type Kernel,
  type KernelDeps,
  requireOperator,
} from "@backplane/ports";
import { findLastingRefusal } from "../admission/lasting-permission.ts";
import { type OpenDeps, reopen } from "../open/open.ts";
import { buildRuleFromAnswer, ruleRefusedError } from "./allow-rules.ts";
import { BUS_ACTOR } from "./approval-events.ts";
import { toolDigestOf } from "./coverage.ts";
import { type ApprovalPublisher, endApproval, type PendingApprovals } from "./pending-approvals.ts";
import { type SessionCall, type SessionGrants, toSessionCall } from "./session-grants.ts";

interface ApprovalsDeps extends OpenDeps {
  deps: KernelDeps;
  pending: PendingApprovals;
  session_grants: SessionGrants;
}

/** The permission that an answer gives beyond the call itself. */
interface LastingConsent {
  new_rule?: { rule: AllowRuleRow; records: ChangeRecords };
  session?: { call: SessionCall; covered: Pick<ApprovalGrant, "covers" | "digest"> };
}

export function createApprovals(
  door: ApprovalsDeps,
  publisher: Pick<ApprovalPublisher, "answered" | "answeredOnBus">,
): Kernel["approvals"] {
  const { deps, pending, session_grants, authority } = door;
  const { store } = deps;

  async function get(caller: Caller, id: string): Promise<Approval> {
    const approval = await store.approvals.get(caller.scope, id);
    if (approval === null) throw new BackplaneError("approval.not_found");
    return approval;
  }

  /**
   * Requires that the caller of the waiting call is still authorized. The gateway that owns the call ends a call whose
   * caller is not. Resolves with null if the call does not exist.
   */
  async function requireRequester({
    org_id,
    project_id,
    invocation_id,
  }: Approval): Promise<InvocationRow | null> {
    const scope = { org_id, project_id };
    const row = await store.invocations.get(scope, invocation_id);
    if (row === null) return null;
    await authority.require({ actor: row.requested_by, role: row.role, scope });
    return row;
  }

  /** Checks what the answer would permit beyond this call, before the approval is resolved. */
  async function prepareLastingConsent(
    caller: Caller,
    approval: Approval,
    row: InvocationRow | null,
    { response, covers }: ApprovalAnswer,
  ): Promise<LastingConsent> {
    if (response === "approve" || response === "reject") {
      if (covers === undefined) return {};
      throw invalidFieldError(
        "covers",
        `The response ${response} covers only this call.`,
        "Leave out covers.",
      );
    }
    if (response === "approve_for_session" && approval.session_id === null)
      throw invalidFieldError(
        "response",
        "The call does not belong to a session, so an approval covers only this call.",
      );
    if (row === null)
      throw new BackplaneError("approval.closed", "The call of this approval no longer exists.", {
        details: { status: approval.status },
      });
    const call = await reopen(door, row);
    if (response === "approve_always")
      return { new_rule: buildRuleFromAnswer(deps, caller, approval, call, covers ?? "tool") };
    const covered = await readSessionCoverage(approval, covers ?? "arguments");
    const refusal = findLastingRefusal(call, approval.risk, "session", covered.covers);
    if (refusal !== null) throw ruleRefusedError(refusal);
    const session = toSessionCall(row, call.root.actor);
    return session === null ? {} : { session: { call: session, covered } };
  }

  async function readSessionCoverage(
    approval: Approval,
    covers: AnswerCoverage,
  ): Promise<Pick<ApprovalGrant, "covers" | "digest">> {
    if (covers === "arguments") return { covers, digest: approval.digest };
    if (covers === "server")
      throw invalidFieldError("covers", "An answer for a session covers the arguments or the tool.");
    const covered_parts = await store.approvals.getCoveredDigests(approval, approval.id);
    // Earlier gateway versions did not store the parts.
    if (covered_parts === null)
      throw invalidFieldError("covers", "This approval can cover only its arguments.");
    return { covers, digest: toolDigestOf(covered_parts) };
  }

  async function answer(caller: Caller, id: string, body: ApprovalAnswer): Promise<Approval> {
    requireOperator(caller, "answer approvals");
    const approval = await get(caller, id);
    if (approval.status !== "pending") throw alreadyClosedError(approval);
    // The person who answers must still be authorized. To approve, the caller of the waiting call must be too.
    await authority.require(caller);
    const row = body.response === "reject" ? null : await requireRequester(approval);
    if (body.digest !== undefined && body.digest !== approval.digest) {
      throw new BackplaneError(
        "approval.changed",
        "The digest in the answer does not match the digest of the approval.",
        {
          fix: `Read the approval again (backplane approve show ${id}), and answer with its digest.`,
        },
      );
    }
    const { new_rule, session } = await prepareLastingConsent(caller, approval, row, body);
    const is_rejection = body.response === "reject";
    const feedback = body.feedback ?? null;
    const resolution = {
      status: is_rejection ? ("rejected" as const) : ("approved" as const),
      response: body.response,
      feedback,
      answered_by: caller.actor,
    };
    const ended = await endApproval(deps, approval, resolution, { new_rule });
    if (!ended) throw alreadyClosedError(await get(caller, id));
    if (session !== undefined) session_grants.remember(approval, session.call, caller, session.covered);
    pending.resolve(id, is_rejection ? { kind: "rejected", feedback } : { kind: "approved" });
    if (!caller.actor.startsWith(BUS_ACTOR)) publisher.answered(approval, body.response, feedback);
    else publisher.answeredOnBus(approval, body.response, feedback, caller.actor.slice(BUS_ACTOR.length));
    return await get(caller, id);
  }

  return {
    get,
    list: (caller, filter, page) => store.approvals.list(caller.scope, filter, page),
    answer,
    listGrants: (caller) => session_grants.list(caller.scope),
    revokeGrant: async (caller, id) => {
      requireOperator(caller, "revoke session grants");
      // Revoked before the audit entry is written, so that an unavailable store does not keep the session grant alive.
      const { tool, session_id, digest, org_id, project_id } = session_grants.revoke(caller.scope, id);
      const details = { tool, session_id, digest };
      await store.audit.append(
        buildAudit(deps, caller, "approval_grant.revoke", id, details, { org_id, project_id }),
      );
    },
  };
}

function invalidFieldError(field: string, message: string, fix = "Answer with approve."): BackplaneError {
  return new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: `body.${field}`, message }] },
    fix,
  });
}

function alreadyClosedError(approval: Approval): BackplaneError {
  return new BackplaneError("approval.closed", `The approval is already ${approval.status}.`, {
    details: { status: approval.status },
  });
}
