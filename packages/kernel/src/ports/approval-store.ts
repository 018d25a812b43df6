import type { Approval, ApprovalResponse, ApprovalStatus } from "@backplane/contract";
import type { Facts } from "./facts.ts";
import type { Page, PageOf, Scope } from "./scope.ts";

export interface ApprovalResolution {
  status: Exclude<ApprovalStatus, "pending">;
  response: ApprovalResponse | null;
  feedback: string | null;
  answered_by: string | null;
  resolved_at: string;
}

/** Approvals are created by InvocationStore.open, in the transaction of their invocation. */
export interface ApprovalStore {
  get(scope: Scope, id: string): Promise<Approval | null>;
  list(scope: Scope, filter: { status?: ApprovalStatus }, page: Page): Promise<PageOf<Approval>>;
  /** First answer wins: false when it is no longer pending. */
  resolve(id: string, how: ApprovalResolution, facts: Facts): Promise<boolean>;
}
