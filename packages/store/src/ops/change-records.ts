/** The outbox events and the audit entry of a change, which are written in its transaction. */
import { type AuditRow, appendAudit } from "./audit.ts";
import { type Op, type SqlValue, sql } from "./op.ts";

export interface ChangeRecordRows {
  events: SqlValue[][];
  audit: AuditRow | null;
}

const INSERT_EVENT = `insert into outbox (id, type, org_id, project_id, occurred_at, subject_kind, subject_id, summary, from_hook, ids)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`;

/** The position of the ids in the row of an event. */
export const EVENT_IDS = 9;

export function* writeRecords(records: ChangeRecordRows): Op<void> {
  for (const event of records.events) yield sql(INSERT_EVENT, event);
  if (records.audit !== null) yield* appendAudit(records.audit);
}
