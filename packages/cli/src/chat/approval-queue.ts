/** Asks for the approvals of a conversation, one at a time. A question that was answered elsewhere is withdrawn. */
import { type Approval, type ApprovalAnswer, codeOf, toBackplaneError } from "@backplane/contract";
import { errorLines, toErrorReport } from "../command-line/error-report.ts";
import type { CommandContext } from "../context/context.ts";
import type { LineEditor } from "../terminal/line-editor.ts";
import { keysHint, keysText, questionText, readAnswer } from "./approval-prompt.ts";

export class ApprovalQueue {
  readonly #context: CommandContext;
  readonly #editor: Pick<LineEditor, "askQuestion" | "cancelQuestion">;
  readonly #endLine: () => void;
  #waiting: { approval: Approval; session_id: string }[] = [];
  #current: Approval | null = null;

  /** `endLine` ends the line that is being written, before a question is shown. */
  constructor(
    context: CommandContext,
    editor: Pick<LineEditor, "askQuestion" | "cancelQuestion">,
    endLine: () => void,
  ) {
    this.#context = context;
    this.#editor = editor;
    this.#endLine = endLine;
  }

  add(approval: Approval, session_id: string): void {
    this.#waiting.push({ approval, session_id });
    if (this.#current === null) this.#askNext();
  }

  /** Withdraws the open question if it was answered elsewhere. */
  async refresh(): Promise<void> {
    const current = this.#current;
    if (current === null) return;
    const read = this.#context.client().approvals.get(current.id);
    const latest = await read.catch(() => null);
    if (latest === null || latest.status === "pending" || this.#current !== current) return;
    this.#editor.cancelQuestion();
    this.#print(`${latest.status}${latest.answered_by === null ? "" : ` by ${latest.answered_by}`}`);
    this.#askNext();
  }

  clear(): void {
    this.#waiting = [];
    if (this.#current !== null) this.#editor.cancelQuestion();
    this.#current = null;
  }

  #askNext(): void {
    const next = this.#waiting.shift();
    this.#current = next?.approval ?? null;
    if (next === undefined) return;
    this.#endLine();
    this.#print(questionText(this.#context.out, next.approval, next.session_id));
    this.#askApproval(next.approval);
  }

  #askApproval(approval: Approval): void {
    this.#editor.askQuestion(keysText(approval), (line) => {
      const answer = readAnswer(approval, line);
      if (answer === null) {
        this.#print(`  ${keysHint(approval)}`);
        return this.#askApproval(approval);
      }
      if (answer.response !== "reject" || answer.feedback !== undefined)
        return void this.#send(approval, answer);
      this.#editor.askQuestion("  Reason? (Enter: none) ", (reason) => {
        const feedback = reason.trim().slice(0, 2_000);
        void this.#send(approval, feedback === "" ? answer : { ...answer, feedback });
      });
    });
  }

  async #send(approval: Approval, answer: ApprovalAnswer): Promise<void> {
    // Cleared first: the call may continue, and its events arrive, before this request returns.
    this.#current = null;
    try {
      await this.#context.client().approvals.answer(approval.id, answer);
    } catch (error) {
      const code = codeOf(error);
      if (code === "approval.closed") this.#print("The approval has already been answered or has expired.");
      else this.#print(errorLines(toErrorReport(toBackplaneError(error))));
      // The policy may have become stricter since the question was shown; the call still awaits approval.
      if (code === "allow_rule.refused") {
        this.#current = approval;
        return this.#askApproval(approval);
      }
    }
    if (this.#current === null) this.#askNext();
  }

  #print(text: string): void {
    this.#context.io.stderr.write(`${text}\n`);
  }
}
