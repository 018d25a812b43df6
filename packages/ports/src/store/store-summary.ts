/** A summary of the store for operators, part of the status of the gateway. */
export interface StoreSummary {
  kind: "sqlite" | "postgres";
  schema_version: number;
  bytes: number;
  /** Null if `backplane backup` has not been used in this home. */
  last_backup_at: string | null;
}
