/**
 * Approvals on the bus (approval.flow): questions and withdrawals go out on the reserved session, because the
 * session that asks is the one that waits; answers of adapters come back the same way and meet the same checks as
 * those over HTTP. An answer that fits nothing runs nothing.
 */

import {
  type Approval,
  type BusEvent,
  codeOf,
  type Json,
  type JsonObject,
  KERNEL_SESSION,
} from "@backplane/contract";
import type { Caller, Kernel, Logger } from "@backplane/ports";
import type { KernelPort } from "@backplane/session";
import type { ApprovalNews } from "./pending.ts";

/** Who answers on the bus has told everybody by that. */
export const BUS_ACTOR = "plugin:";

export function approvalNews(port: KernelPort, log: Logger): ApprovalNews {
  const tell = (approval: Approval, kind: string, payload: JsonObject) => {
    const { id, org_id, project_id, session_id } = approval;
    const sent = port.tryPublish(
      kind,
      { id, target_session_id: session_id ?? "", ...payload },
      { session_id: KERNEL_SESSION, scope: { org_id, project_id } },
    );
    if (sent === null)
      log.error({ approval_id: id, kind }, "the kernel's session is full; an approval was not told");
  };
  return {
    requested: (approval) =>
      tell(approval, "approval.request", {
        tool_name: approval.tool,
        params: objectOf(approval.input),
        brief: approval.brief,
        digest: approval.digest,
        reason: approval.reason,
        risk: approval.risk,
        invocation_id: approval.invocation_id,
        expires_at: approval.expires_at,
        ...(approval.replaces === null ? {} : { replaces: approval.replaces, changed: approval.changed }),
      }),
    answered: (approval, response) => tell(approval, "approval.response", { response }),
    cancelled: (approval, reason) => tell(approval, "approval.cancelled", { reason }),
  };
}

/** Answers how to stop listening. */
export function hearAnswers(port: KernelPort, approvals: Kernel["approvals"], log: Logger): () => void {
  const answer = async ({ payload, source, org_id, project_id }: BusEvent<"approval.response">) => {
    const { id, response, feedback } = payload;
    const caller: Caller = {
      actor: `${BUS_ACTOR}${source}`,
      scope: { org_id, project_id },
      role: "user",
      scopes: [],
      admin: false,
    };
    try {
      const digest = typeof payload.digest === "string" ? { digest: payload.digest } : {};
      await approvals.answer(caller, id, {
        response,
        ...(feedback === undefined ? {} : { feedback }),
        ...digest,
      });
    } catch (error) {
      if (codeOf(error) === undefined) throw error;
      log.info({ approval_id: id, source, code: codeOf(error) }, "an answer to an approval was refused");
    }
  };
  // Its own are news of answers that were taken already.
  return port.subscribe("approval.response", (event) =>
    event.source === port.name ? undefined : answer(event),
  );
}

function objectOf(value: Json): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : { value };
}
