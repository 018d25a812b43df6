import type { MaybePromise, Policy } from "@backplane/contract";
import type { Scope } from "../scope/scope.ts";
import type { ChangeRecords } from "./change-records.ts";

export interface PolicyRow {
  /** A null project means the policy of the org. */
  scope: Scope;
  policy: Policy;
  /** Starts at 1 and rises with every change. */
  generation: number;
  updated_at: string;
  updated_by: string;
}

export interface PolicyRows {
  org: PolicyRow | null;
  project: PolicyRow | null;
}

export interface PolicyStore {
  /**
   * The policy rows of the org and of the project; null if none was ever set. Cached (benchmark http.invoke), but never
   * stale.
   */
  get(scope: Scope): MaybePromise<PolicyRows>;
  /** Writes `row` if the stored generation is `row.generation - 1` (0 for no row); otherwise resolves to false. */
  put(row: PolicyRow, records: ChangeRecords): Promise<boolean>;
}
