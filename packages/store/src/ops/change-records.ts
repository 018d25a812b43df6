/** The outbox events and the audit entry of a change, which are written in its transaction. */
import { type AuditRow, appendAudit } from "./audit.ts";
import { type Op, type SqlValue, sql } from "./op.ts";

export interface ChangeRecordRows {
  events: SqlValue[][];
  audit: AuditRow | null;
}

const INSERT_EVENT = `insert into outbox (id, type, org_id, project_id, occurred_at, subject_kind, subject_id, summary, from_hook, ids)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`;

/** Positions in the row of an event. */
const EVENT_SUBJECT = 6;
const EVENT_SUMMARY = 7;
export const EVENT_IDS = 9;

/** Adds to the `tokens` of the events about this subject. */
export function addTokens(records: ChangeRecordRows, subject_id: string, tokens: number): ChangeRecordRows {
  if (tokens === 0) return records;
  const events = records.events.map((event) => {
    if (event[EVENT_SUBJECT] !== subject_id) return event;
    const summary = JSON.parse(event[EVENT_SUMMARY] as string) as { tokens?: number };
    if (summary.tokens === undefined) return event;
    return event.with(EVENT_SUMMARY, JSON.stringify({ ...summary, tokens: summary.tokens + tokens }));
  });
  return { ...records, events };
}

export function* writeRecords(records: ChangeRecordRows): Op<void> {
  for (const event of records.events) yield sql(INSERT_EVENT, event);
  if (records.audit !== null) yield* appendAudit(records.audit);
}
