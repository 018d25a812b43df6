import type { Approval, ApprovalResponse, ApprovalStatus } from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";
import type { AllowRuleRow } from "./allow-rule-store.ts";
import type { ChangeRecords } from "./change-records.ts";

export interface ApprovalResolution {
  status: Exclude<ApprovalStatus, "pending">;
  response: ApprovalResponse | null;
  feedback: string | null;
  answered_by: string | null;
  resolved_at: string;
}

/** An approval as it is written, with the digest of each part that it covers. Clients never see these digests. */
export interface NewApproval extends Approval {
  covers: Readonly<Record<string, string>>;
}

/** Approvals are created by InvocationStore.open, in the transaction of their invocation. */
export interface ApprovalStore {
  get(scope: Scope, id: string): Promise<Approval | null>;
  /** The digests of the covered parts; null in rows of earlier versions. */
  getCoveredDigests(scope: Scope, id: string): Promise<NewApproval["covers"] | null>;
  list(scope: Scope, filter: { status?: ApprovalStatus }, page: Page): Promise<PageOf<Approval>>;
  /**
   * The first answer wins: resolves to false if the approval is no longer pending. `new_rule` is the allow rule that
   * the answer creates.
   */
  resolve(
    id: string,
    options: ApprovalResolution,
    records: ChangeRecords,
    new_rule?: { rule: AllowRuleRow; records: ChangeRecords },
  ): Promise<boolean>;
}
