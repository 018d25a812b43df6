/** The approval prompt: shows the tool, its risk, the exact arguments and the keys that answer it. */
import type { Approval, ApprovalAnswer, Risk } from "@backplane/contract";
import type { Output } from "../terminal/output.ts";
import { exactJson, plainLine } from "../terminal/plain-text.ts";

/** For these risks, pressing Enter rejects the call. */
const HIGH_RISKS: ReadonlySet<Risk> = new Set(["high", "critical", "unknown"]);

function isHighRisk({ risk }: Pick<Approval, "risk">): boolean {
  return HIGH_RISKS.has(risk);
}

export function questionText(out: Output, approval: Approval, chat_session: string): string {
  const { tool, package_id, package_version, risk, brief, reason, session_id, changed } = approval;
  const riskText = isHighRisk(approval) ? out.paint("red", `${risk} risk`) : `${risk} risk`;
  const origin = session_id !== null && session_id !== chat_session ? ` for ${session_id}` : "";
  return [
    `${out.paint("yellow", "?")} ${plainLine(`${tool} of ${package_id}@${package_version} wants to run${origin}`)} (${riskText})`,
    ...(brief === "" ? [] : [`  ${plainLine(brief)}`]),
    ...(reason === "" ? [] : [`  ${plainLine(`reason: ${reason}`)}`]),
    ...(changed.length === 0
      ? []
      : [`  ${plainLine(`changed since the previous request: ${changed.join(", ")}`)}`]),
    `  arguments: ${exactJson(approval.input).replaceAll("\n", "\n  ")}`,
  ].join("\n");
}

export function keysText(approval: Approval): string {
  return `  [y] once  [s] this session  [n] reject, or n and a reason${isHighRisk(approval) ? "  (Enter: n)" : ""}: `;
}

/** Null if the line is not an answer, so that the prompt is repeated. The digest identifies the arguments that were shown. */
export function readAnswer(approval: Approval, line: string): ApprovalAnswer | null {
  const { digest } = approval;
  const text = line.trim();
  if (/^y(es)?$/i.test(text)) return { response: "approve", digest };
  if (/^s$/i.test(text)) return { response: "approve_for_session", digest };
  const rejection = text === "" && isHighRisk(approval) ? ["n", ""] : /^no?(?:[\s,:]+(.*))?$/is.exec(text);
  if (rejection === null) return null;
  const feedback = rejection[1] ?? "";
  return { response: "reject", digest, ...(feedback === "" ? {} : { feedback: feedback.slice(0, 2_000) }) };
}
