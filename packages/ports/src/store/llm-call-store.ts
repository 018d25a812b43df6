/** Calls to the model endpoints and the budgets that they count towards. */
import type { LlmCall } from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";

/** One limit that a call counts towards. */
export interface LlmBudgetUse {
  /** The key or the project. */
  subject: string;
  period: string;
  /** Start and end of the current period in milliseconds. */
  starts: number;
  ends: number;
  max_requests: number;
  max_tokens: number;
  label: string;
}

export interface LlmCallStore {
  /** Counts the call towards all budgets and writes its record, or throws `llm.budget_exceeded` and writes nothing. */
  open(
    call: LlmCall,
    deadline: number,
    uses: readonly LlmBudgetUse[],
    reserved_tokens: number,
    /** The gateway that makes the call. */
    node_id: string,
  ): Promise<void>;
  /** Ends a running call; `tokens` is the used minus the reserved number. Resolves to false if the call has ended. */
  settle(call: LlmCall, uses: readonly LlmBudgetUse[], tokens: number): Promise<boolean>;
  /**
   * Marks running calls whose deadline is before this time as lost; returns their number. With `now`, a store that
   * gateways share does the same with the calls of gateways whose lease has expired.
   */
  endLost(before: number, now: number | null): Promise<number>;
  get(scope: Scope, id: string): Promise<LlmCall | null>;
  /** Newest first. */
  list(
    scope: Scope,
    filter: { run_id?: string; invocation_id?: string },
    page: Page,
  ): Promise<PageOf<LlmCall>>;
}
