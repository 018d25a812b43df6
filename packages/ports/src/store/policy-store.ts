import type { MaybePromise, Policy } from "@backplane/contract";
import type { Scope } from "../scope/scope.ts";
import type { Facts } from "./facts.ts";

export interface PolicyRow {
  /** A null project is the org's own. */
  scope: Scope;
  policy: Policy;
  /** Rises with every change, from 1. */
  generation: number;
  updated_at: string;
  updated_by: string;
}

export interface PolicyRows {
  org: PolicyRow | null;
  project: PolicyRow | null;
}

export interface PolicyStore {
  /** What holds in a scope: the org's row and the project's, null where nothing was ever set. Always fresh. */
  at(scope: Scope): MaybePromise<PolicyRows>;
  /** Writes `row` if the stored generation is still `row.generation - 1` (0: there is none); false otherwise. */
  put(row: PolicyRow, facts: Facts): Promise<boolean>;
}
