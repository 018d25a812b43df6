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
  const risk_text = isHighRisk(approval) ? out.paint("red", `${risk} risk`) : `${risk} risk`;
  const origin = session_id !== null && session_id !== chat_session ? ` for ${session_id}` : "";
  return [
    `${out.paint("yellow", "?")} ${plainLine(`${tool} of ${package_id}@${package_version} requests approval${origin}`)} (${risk_text})`,
    ...(brief === "" ? [] : [`  ${plainLine(brief)}`]),
    ...(reason === "" ? [] : [`  ${plainLine(`reason: ${reason}`)}`]),
    ...(changed.length === 0
      ? []
      : [`  ${plainLine(`changed since the previous request: ${changed.join(", ")}`)}`]),
    ...(approval.may_cover.always.length === 0
      ? []
      : [
          `  "always" lasts beyond this session, for calls of up to ${risk} risk; to undo it: backplane allow list`,
        ]),
    `  arguments: ${exactJson(approval.input).replaceAll("\n", "\n  ")}`,
  ].join("\n");
}

interface Choice {
  key: string;
  label: string;
  pattern: RegExp;
  answer: Omit<ApprovalAnswer, "digest" | "feedback">;
}

/** The ways to approve the call that the gateway permits. */
function listChoices({ tool, package_id, may_cover: { session, always } }: Approval): Choice[] {
  const choices: (Choice & { permitted: boolean })[] = [
    { key: "y", label: "once", pattern: /^y(es)?$/i, permitted: true, answer: { response: "approve" } },
    {
      key: "s",
      label: "these arguments in this session",
      pattern: /^s(ession)?$/i,
      permitted: session.includes("arguments"),
      answer: { response: "approve_for_session" },
    },
    {
      key: "t",
      label: `${tool} in this session`,
      pattern: /^t(ool)?$/i,
      permitted: session.includes("tool"),
      answer: { response: "approve_for_session", covers: "tool" },
    },
    {
      key: "a",
      label: `always ${tool}`,
      pattern: /^a(lways)?$/i,
      permitted: always.includes("tool"),
      answer: { response: "approve_always", covers: "tool" },
    },
    {
      key: "v",
      label: `always all tools of ${package_id}`,
      pattern: /^(v|server)$/i,
      permitted: always.includes("server"),
      answer: { response: "approve_always", covers: "server" },
    },
  ];
  return choices.filter(({ permitted }) => permitted);
}

export function keysText(approval: Approval): string {
  const keys = listChoices(approval).map(({ key, label }) => plainLine(`[${key}] ${label}`));
  return `  ${keys.join("  ")}  [n] reject, or n and a reason${isHighRisk(approval) ? "  (Enter: n)" : ""}: `;
}

/** Lists the accepted keys after a line that is not an answer. */
export function keysHint(approval: Approval): string {
  return `Answer ${listChoices(approval)
    .map(({ key }) => key)
    .join(", ")} or n.`;
}

/**
 * Null if the line is not an answer; the caller then repeats the prompt. The digest identifies the arguments that were
 * shown.
 */
export function readAnswer(approval: Approval, line: string): ApprovalAnswer | null {
  const { digest } = approval;
  const text = line.trim();
  const choice = listChoices(approval).find(({ pattern }) => pattern.test(text));
  if (choice !== undefined) return { ...choice.answer, digest };
  const rejection = text === "" && isHighRisk(approval) ? ["n", ""] : /^no?(?:[\s,:]+(.*))?$/is.exec(text);
  if (rejection === null) return null;
  const feedback = rejection[1] ?? "";
  return { response: "reject", digest, ...(feedback === "" ? {} : { feedback: feedback.slice(0, 2_000) }) };
}
