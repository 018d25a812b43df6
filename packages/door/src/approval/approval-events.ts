/**
 * Approvals on the bus (approval.flow). Requests, cancellations and answers over HTTP are published on the reserved
 * kernel session, because the session that needs the approval may be blocked until a person has answered. Answers from
 * adapters arrive on the bus and pass the same checks as answers over HTTP.
 */

import {
  type Approval,
  type ApprovalResponse,
  type BusEvent,
  codeOf,
  isObject,
  type Json,
  type JsonObject,
  KERNEL_SESSION,
} from "@backplane/contract";
import type { Caller, Changes, Kernel, Logger } from "@backplane/ports";
import type { KernelPort } from "@backplane/session";
import type { ApprovalPublisher } from "./pending-approvals.ts";

/**
 * Actor prefix of answers from the bus. Such an answer is not published again, because the plugins have received it.
 * Clients that watch the session receive it separately once it is accepted, because the plugin's own event does not
 * contain the session id.
 */
export const BUS_ACTOR = "plugin:";

export function createApprovalPublisher(
  port: KernelPort,
  changes: Pick<Changes, "emit">,
  log: Logger,
): ApprovalPublisher {
  const publish = (approval: Approval, kind: string, payload: JsonObject) => {
    const { id, org_id, project_id, session_id } = approval;
    const sent = port.tryPublish(
      kind,
      { id, target_session_id: session_id ?? "", ...payload },
      { session_id: KERNEL_SESSION, scope: { org_id, project_id } },
    );
    if (sent === null)
      log.error({ approval_id: id, kind }, "approval event dropped: the queue of the kernel session is full");
  };
  return {
    requested: (approval) =>
      publish(approval, "approval.request", {
        tool_name: approval.tool,
        params: toObject(approval.input),
        brief: approval.brief,
        digest: approval.digest,
        reason: approval.reason,
        risk: approval.risk,
        may_cover: approval.may_cover,
        invocation_id: approval.invocation_id,
        expires_at: approval.expires_at,
        ...(approval.replaces === null ? {} : { replaces: approval.replaces, changed: approval.changed }),
      }),
    answered: (approval, response, feedback) =>
      publish(approval, "approval.response", toAnswer(response, feedback)),
    answeredOnBus({ id, org_id, project_id, session_id }, response, feedback, source) {
      // Without a session, no client watches for the answer.
      if (session_id === null) return;
      const payload = { id, target_session_id: session_id, ...toAnswer(response, feedback) };
      changes.emit("approval.answered", { scope: { org_id, project_id }, source, payload });
    },
    cancelled: (approval, reason) => publish(approval, "approval.cancelled", { reason }),
  };
}

/** Passes answers from the bus to `approvals`. Returns the function that unsubscribes. */
export function subscribeToAnswers(
  port: KernelPort,
  approvals: Kernel["approvals"],
  log: Logger,
): () => void {
  const answer = async ({ payload, source, org_id, project_id }: BusEvent<"approval.response">) => {
    const { id, response, covers, feedback } = payload;
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
        ...(covers === undefined ? {} : { covers }),
        ...(feedback === undefined ? {} : { feedback }),
        ...digest,
      });
    } catch (error) {
      if (codeOf(error) === undefined) throw error;
      log.info({ approval_id: id, source, code: codeOf(error) }, "answer to an approval rejected");
    }
  };
  // The kernel itself publishes answers that came over HTTP; those are already recorded.
  return port.subscribe("approval.response", (event) =>
    event.source === port.name ? undefined : answer(event),
  );
}

function toAnswer(response: ApprovalResponse, feedback: string | null) {
  return { response, ...(feedback === null ? {} : { feedback }) };
}

function toObject(value: Json): JsonObject {
  return isObject(value) ? value : { value };
}
