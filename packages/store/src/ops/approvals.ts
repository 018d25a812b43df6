import { type CreateAllowRule, createAllowRule } from "./allow-rules.ts";
import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { checkedCondition, type Op, type Row, type SqlValue, sql } from "./op.ts";

/** The first decision wins. Returns false if the approval has already been decided. */
export function* resolveApproval(p: {
  id: string;
  status: string;
  resolution: string;
  /** The allow rule that the decision creates. */
  rule: CreateAllowRule | null;
  records: ChangeRecordRows;
}): Op<boolean> {
  const resolved = yield sql(
    "update approvals set status = $2, resolution = $3 where id = $1 and status = 'pending' returning id",
    [p.id, p.status, p.resolution],
  );
  if (resolved.length === 0) return false;
  if (p.rule !== null) yield* createAllowRule(p.rule);
  yield* writeRecords(p.records);
  return true;
}

export function* readApproval(id: string, org_id: string, project_id: string): Op<Row | undefined> {
  const rows = yield sql(
    `select id, body, status, resolution from approvals
      where id = $1 and ${checkedCondition("approvals", "org_id = $2 and ($3 = '' or project_id = $3)")}`,
    [id, org_id, project_id],
  );
  return rows[0];
}

export function* listApprovals(
  org_id: string,
  project_id: string,
  status: string,
  before: string,
  limit: number,
): Op<Row[]> {
  const conditions = ["org_id = $1", "id < $2"];
  const values: SqlValue[] = [org_id, before, limit];
  if (status !== "") conditions.push(`status = $${values.push(status)}`);
  if (project_id !== "") {
    const in_project = `project_id = $${values.push(project_id)}`;
    // The index on the status does not contain the project.
    conditions.push(status === "" ? in_project : checkedCondition("approvals", in_project));
  }
  return yield sql(
    `select id, body, status, resolution from approvals where ${conditions.join(" and ")}
      order by id desc limit $3`,
    values,
  );
}
