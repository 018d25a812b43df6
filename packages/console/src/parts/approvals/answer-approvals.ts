/** Sends one answer to identical calls that await approval. */
import type { Client } from "@backplane/client";
import { type AnswerCoverage, type Approval, type ApprovalResponse, codeOf } from "@backplane/contract";
import { useMutation } from "@tanstack/react-query";
import { useServices } from "../../api/services.ts";
import { useToast } from "../actions/toast.tsx";

export interface ApprovalReply {
  response: ApprovalResponse;
  covers?: AnswerCoverage;
}

type ShownApproval = Pick<Approval, "id" | "digest">;

/** Each answer carries the digest of what is shown, so it cannot apply to a call that has changed since. */
export async function answerApprovals(
  { approvals: client }: { approvals: Pick<Client["approvals"], "answer"> },
  approvals: readonly ShownApproval[],
  { response, covers }: ApprovalReply,
  feedback = "",
): Promise<void> {
  const feedback_field = feedback.trim() === "" ? {} : { feedback: feedback.trim() };
  const is_lasting = response === "approve_for_session" || response === "approve_always";
  for (const [index, { id, digest }] of approvals.entries()) {
    // A lasting answer covers all identical calls, so it is sent only once.
    const reply =
      is_lasting && index > 0
        ? { response: "approve" as const }
        : { response, ...(covers === undefined ? {} : { covers }) };
    try {
      await client.answer(id, { ...reply, digest, ...feedback_field });
    } catch (error) {
      // The lasting answer has already let this one run.
      if (!is_lasting || index === 0 || codeOf(error) !== "approval.closed") throw error;
    }
  }
}

export function useAnswerApprovals(
  approvals: readonly ShownApproval[],
  feedback: string,
  onAnswered?: (reply: ApprovalReply) => void,
) {
  const { client, queries } = useServices();
  const toast = useToast();
  return useMutation({
    mutationFn: (reply: ApprovalReply) => answerApprovals(client, approvals, reply, feedback),
    onSuccess: (_done, reply) => onAnswered?.(reply),
    onError: toast.fail,
    onSettled: () =>
      Promise.all(
        ["approvals", "allow-rules", "status"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })),
      ),
  });
}
