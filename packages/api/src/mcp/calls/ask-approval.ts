/**
 * Asks the client for the approval that its call awaits, as an elicitation. Only a caller that may answer approvals
 * over HTTP is asked, so a client cannot approve anything here that it could not approve there. Others can still answer
 * in the meantime, and the first answer counts.
 */
import {
  type Approval,
  BackplaneError,
  type Invocation,
  isObject,
  type Json,
  type JsonObject,
  sanitizeText,
} from "@backplane/contract";
import { type Caller, type Kernel, requireScope } from "@backplane/ports";
import type { Questions } from "../session/questions.ts";

/** A person must see all arguments, so the client is not asked about a call with longer ones. */
const MAX_ARGUMENT_CHARS = 8_000;
const MAX_FEEDBACK_CHARS = 2_000;

const FORM: JsonObject = {
  type: "object",
  properties: {
    decision: { type: "string", title: "Decision", enum: ["approve", "reject"] },
    feedback: {
      type: "string",
      title: "Feedback",
      description: "What the model should know about your decision; optional.",
      maxLength: MAX_FEEDBACK_CHARS,
    },
  },
  required: ["decision"],
};

export async function askForApproval(
  kernel: Pick<Kernel, "approvals">,
  caller: Caller,
  { approval_id }: Pick<Invocation, "approval_id">,
  questions: Questions,
): Promise<void> {
  if (approval_id === null || !mayAnswer(caller)) return;
  const approval = await kernel.approvals.get(caller, approval_id);
  const message = describeApproval(approval);
  if (message === null) return;
  const pending_answer = questions.ask(
    "elicitation/create",
    { message, requestedSchema: FORM },
    approval.id,
    NO_DECISION,
  );
  const answer = pending_answer === null ? null : readAnswer(await pending_answer);
  if (answer !== null)
    await kernel.approvals.answer(caller, approval.id, { ...answer, digest: approval.digest });
}

/** The answer of a client that disconnects, which has decided nothing. */
const NO_DECISION: Json = { action: "cancel" };

function mayAnswer(caller: Caller): boolean {
  if (caller.delegation !== undefined || caller.role === "guest") return false;
  try {
    requireScope(caller, "approvals:answer");
    return true;
  } catch (error) {
    if (error instanceof BackplaneError) return false;
    throw error;
  }
}

function describeApproval({ brief, input, package_id, reason, risk, tool }: Approval): string | null {
  const arguments_text = sanitizeText(JSON.stringify(input, null, 2));
  if (arguments_text.length > MAX_ARGUMENT_CHARS) return null;
  const lines = [`Allow ${tool} (${package_id}) to run? Risk: ${risk}.`, reason];
  if (brief !== "") lines.push(brief);
  return `${sanitizeText(lines.join("\n"))}\n\nArguments:\n${arguments_text}`;
}

/** Null if the person closed the form or sent an answer that the form does not offer. The approval stays pending. */
function readAnswer(answer: Json): { response: "approve" | "reject"; feedback?: string } | null {
  if (!isObject(answer)) return null;
  const { action, content } = answer;
  if (action === "decline") return { response: "reject" };
  if (action !== "accept" || !isObject(content)) return null;
  const { decision, feedback } = content;
  if (decision !== "approve" && decision !== "reject") return null;
  if (typeof feedback !== "string" || feedback.trim() === "") return { response: decision };
  return { response: decision, feedback: feedback.slice(0, MAX_FEEDBACK_CHARS) };
}
