import type { Definitions, MaybePromise } from "@backplane/contract";
import type { ChangeRecords } from "./change-records.ts";

/** One row per binding of a described package; deleted together with the binding. */
export interface DefinitionStore {
  /** Cached: read by each call of a described tool (benchmark mcp.http-call). */
  get(org_id: string, binding_id: string): MaybePromise<Definitions | null>;
  /** Writes `row` if the binding exists and has the previous revision (none for 1); otherwise resolves to false. */
  put(org_id: string, row: Definitions, records: ChangeRecords): Promise<boolean>;
}
