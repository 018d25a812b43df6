/** The approval prompt: tool, risk, exact arguments and keys. */
import type { Approval, ApprovalAnswer, Risk } from "@backplane/contract";
import type { Output } from "../terminal/output.ts";
import { exactJson, plainLine } from "../terminal/plain-text.ts";

/** Enter alone rejects calls of these risks. */
const HIGH_RISKS: ReadonlySet<Risk> = new Set(["high", "critical", "unknown"]);

function isHighRisk({ risk }: Pick<Approval, "risk">): boolean {
  return HIGH_RISKS.has(risk);
}

export function questionText(out: Output, approval: Approval, asking: string): string {
  const { tool, package_id, package_version, risk, brief, reason, session_id, changed } = approval;
  const word = isHighRisk(approval) ? out.paint("red", `${risk} risk`) : `${risk} risk`;
  const whose = session_id !== null && session_id !== asking ? ` for ${session_id}` : "";
  return [
    `${out.paint("yellow", "?")} ${plainLine(`${tool} of ${package_id}@${package_version} wants to run${whose}`)} (${word})`,
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
  const no = text === "" && isHighRisk(approval) ? ["n", ""] : /^no?(?:[\s,:]+(.*))?$/is.exec(text);
  if (no === null) return null;
  const feedback = no[1] ?? "";
  return { response: "reject", digest, ...(feedback === "" ? {} : { feedback: feedback.slice(0, 2_000) }) };
}
