/** The audit log: one hash chain over the entries of all orgs. */
import { createHash } from "node:crypto";
import { checkedCondition, type Op, type Row, type SqlValue, sql } from "./op.ts";

export interface AuditRow {
  /** id, at, org_id, project_id, actor, action, subject, details */
  values: SqlValue[];
  /** The entry's canonical JSON, which the hash covers. */
  canonical: string;
}

/**
 * The head row stays locked until the transaction ends, so the chain is serial with any number of writers. Most changes
 * append their entry last, because all other audited changes wait for this lock.
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

const AUDIT_COLUMNS = "seq, id, at, org_id, project_id, actor, action, subject, details, hash";

export function* listAudit(
  org_id: string,
  project_id: string,
  action: string,
  before: number,
  limit: number,
): Op<Row[]> {
  const conditions = ["org_id = $1", "seq < $2"];
  const values: SqlValue[] = [org_id, before, limit];
  if (action !== "") conditions.push(`action = $${values.push(action)}`);
  if (project_id !== "") {
    const in_project = `project_id = $${values.push(project_id)}`;
    // The index on the action does not contain the project.
    conditions.push(action === "" ? in_project : checkedCondition("audit", in_project));
  }
  return yield sql(
    `select ${AUDIT_COLUMNS} from audit where ${conditions.join(" and ")} order by seq desc limit $3`,
    values,
  );
}

/** A range of the whole chain, across all orgs, for verification. */
export function* readChain(after: number, limit: number): Op<Row[]> {
  return yield sql(`select ${AUDIT_COLUMNS} from audit where seq > $1 order by seq limit $2`, [after, limit]);
}

export function* readChainHash(seq: number): Op<Row | undefined> {
  return (yield sql("select hash from audit where seq = $1", [seq]))[0];
}

export function* readChainHead(): Op<Row> {
  return (yield sql("select seq, hash from audit_head where one = 1"))[0]!;
}
