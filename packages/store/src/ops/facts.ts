/** What a change tells the world, written last in the change's own transaction. */
import { createHash } from "node:crypto";
import { type Op, type SqlValue, sql } from "./op.ts";

export interface FactRows {
  events: SqlValue[][];
  audit: AuditRow | null;
}

export interface AuditRow {
  /** id, at, org_id, project_id, actor, action, subject, details */
  values: SqlValue[];
  /** The entry's canonical JSON, which the hash covers. */
  canonical: string;
}

const INSERT_EVENT = `insert into outbox (id, type, org_id, project_id, occurred_at, subject_kind, subject_id, summary, from_hook)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`;

export function* writeFacts(facts: FactRows): Op<void> {
  for (const event of facts.events) yield sql(INSERT_EVENT, event);
  if (facts.audit !== null) yield* appendAudit(facts.audit);
}

/**
 * The head row is locked until the transaction ends, so that the chain is serial with any number of writers.
 * It is always the last lock that a transaction takes: no deadlock.
 */
export function* appendAudit(entry: AuditRow): Op<void> {
  const [head] = yield sql("update audit_head set seq = seq + 1 where one = 1 returning seq, hash");
  const seq = head!.seq as number;
  const hash = chainHash(head!.hash as string, seq, entry.canonical);
  yield sql(
    `insert into audit (id, at, org_id, project_id, actor, action, subject, details, seq, hash)
      values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
    [...entry.values, seq, hash],
  );
  yield sql("update audit_head set hash = $1 where one = 1", [hash]);
}

export function chainHash(previous: string, seq: number, canonical: string): string {
  return createHash("sha256").update(`${previous}\n${seq}\n${canonical}`).digest("hex");
}
