import type { Definitions, MaybePromise } from "@backplane/contract";
import type { Facts } from "./facts.ts";

/** One row per binding of a described package; it goes with its binding. */
export interface DefinitionStore {
  get(org_id: string, binding_id: string): MaybePromise<Definitions | null>;
  /** Writes `row` if the stored revision is the one before it (none for 1) and the binding is there; else false. */
  put(org_id: string, row: Definitions, facts: Facts): Promise<boolean>;
}
