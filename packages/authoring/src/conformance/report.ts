/** The report of one run: one result for each rule of the protocol and one for each of the author's cases. */
import type { RuleViolation } from "./rule-violation.ts";
import type { ProtocolRule, RuleId } from "./rules.ts";
import type { TranscriptLine } from "./transcript.ts";

export interface Failure {
  /** The problem, as one or more sentences. */
  message: string;
  export_id: string | null;
  /** The frame that broke the rule, or the output that is not a frame. */
  frame: string | null;
  fix: string;
  /** The last frames before the failure. */
  transcript: TranscriptLine[];
  /** The end of stderr. */
  stderr: string;
}

export interface RuleResult {
  /** The id of a rule, or `case:` and the name of a case. */
  id: string;
  rule: string;
  /** `skipped` if the rule applies to no export, or an earlier failure prevented the check. */
  status: "passed" | "failed" | "skipped";
  failure: Failure | null;
}

export interface ConformanceReport {
  package_id: string;
  version: string;
  digest: string;
  protocol: string;
  conforms: boolean;
  passed: number;
  failed: number;
  skipped: number;
  results: RuleResult[];
  duration_ms: number;
}

/** The state of the process that the suite had recorded when a rule was broken. */
export interface FailureContext {
  export_id: string | null;
  transcript: TranscriptLine[];
  stderr: string;
}

export class Findings {
  readonly #rules: Record<string, ProtocolRule>;
  readonly #results = new Map<string, RuleResult>();
  readonly #cases: RuleResult[] = [];

  constructor(rules: Record<string, ProtocolRule>) {
    this.#rules = rules;
    for (const [id, { rule }] of Object.entries(rules))
      this.#results.set(id, { id, rule, status: "skipped", failure: null });
  }

  /** Marks rules as passed, except those that already failed. */
  markPassed(...ids: RuleId[]): void {
    for (const id of ids) {
      const result = this.#results.get(id);
      if (result?.status === "skipped") result.status = "passed";
    }
  }

  /** Records only the first failure of a rule, because later ones usually have the same cause. */
  recordFailure({ rule, message, frame }: RuleViolation, context: FailureContext): void {
    const result = this.#results.get(rule)!;
    if (result.status === "failed") return;
    result.status = "failed";
    result.failure = { message, frame, fix: this.#rules[rule]!.fix, ...context };
  }

  isBroken(id: RuleId): boolean {
    return this.#results.get(id)?.status === "failed";
  }

  addCase(name: string, rule: string, failure: Failure | null): void {
    this.#cases.push({ id: `case:${name}`, rule, status: failure === null ? "passed" : "failed", failure });
  }

  results(): RuleResult[] {
    return [...this.#results.values(), ...this.#cases];
  }
}

export function countStatus(results: readonly RuleResult[], status: RuleResult["status"]): number {
  return results.filter((result) => result.status === status).length;
}
