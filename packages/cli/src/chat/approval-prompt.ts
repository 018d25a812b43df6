/** The question a person is asked before a call runs: its exact arguments, its risk, and what the keys mean. */
import type { Approval, ApprovalAnswer, Risk } from "@backplane/contract";
import type { Output } from "../terminal/output.ts";
import { exactJson, plainLine } from "../terminal/plain-text.ts";

/** For these Enter alone means no. */
const GRAVE: ReadonlySet<Risk> = new Set(["high", "critical", "unknown"]);

function isGrave({ risk }: Pick<Approval, "risk">): boolean {
  return GRAVE.has(risk);
}

export function questionText(out: Output, approval: Approval, asking: string): string {
  const { tool, package_id, package_version, risk, brief, reason, session_id, changed } = approval;
  const word = isGrave(approval) ? out.paint("red", `${risk} risk`) : `${risk} risk`;
  const whose = session_id !== null && session_id !== asking ? ` for ${session_id}` : "";
  return [
    `${out.paint("yellow", "?")} ${plainLine(`${tool} of ${package_id}@${package_version} wants to run${whose}`)} (${word})`,
    ...(brief === "" ? [] : [`  ${plainLine(brief)}`]),
    ...(reason === "" ? [] : [`  ${plainLine(`asked because: ${reason}`)}`]),
    ...(changed.length === 0
      ? []
      : [`  ${plainLine(`changed since it was asked before: ${changed.join(", ")}`)}`]),
    `  arguments: ${exactJson(approval.input).replaceAll("\n", "\n  ")}`,
  ].join("\n");
}

export function keysText(approval: Approval): string {
  return `  [y] once  [s] this session  [n] reject, or n and why${isGrave(approval) ? "  (Enter: n)" : ""}: `;
}

/** Null: neither yes nor no, so it is asked again. The digest proves what was shown. */
export function readAnswer(approval: Approval, line: string): ApprovalAnswer | null {
  const { digest } = approval;
  const said = line.trim();
  if (/^y(es)?$/i.test(said)) return { response: "approve", digest };
  if (/^s$/i.test(said)) return { response: "approve_for_session", digest };
  const no = said === "" && isGrave(approval) ? ["n", ""] : /^no?(?:[\s,:]+(.*))?$/is.exec(said);
  if (no === null) return null;
  const feedback = no[1] ?? "";
  return { response: "reject", digest, ...(feedback === "" ? {} : { feedback: feedback.slice(0, 2_000) }) };
}
