import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { checkedCondition, type Op, type Row, refuse, type SqlValue, sql } from "./op.ts";

export interface CreateAllowRule {
  /** id, org_id, project_id, package_id, body */
  row: SqlValue[];
  org_id: string;
  /** The highest number of rules that the org may have. */
  max: number;
  records: ChangeRecordRows;
}

export function* createAllowRule(p: CreateAllowRule): Op<void> {
  const [count] = yield sql("select count(*) as rules from allow_rules where org_id = $1", [p.org_id]);
  if ((count!.rules as number) >= p.max)
    refuse("allow_rule.too_many", `The organization has ${p.max} allow rules, which is the maximum.`);
  yield sql(
    "insert into allow_rules (id, org_id, project_id, package_id, body) values ($1, $2, $3, $4, $5)",
    p.row,
  );
  yield* writeRecords(p.records);
}

/** A project may remove only its own rules; the whole org may remove any rule. */
export function* removeAllowRule(p: {
  id: string;
  org_id: string;
  project_id: string;
  records: ChangeRecordRows;
}): Op<boolean> {
  const removed = yield sql(
    "delete from allow_rules where id = $1 and org_id = $2 and ($3 = '' or project_id = $3) returning id",
    [p.id, p.org_id, p.project_id],
  );
  if (removed.length === 0) return false;
  yield* writeRecords(p.records);
  return true;
}

/** A project sees its own rules and the org's; the whole org ('') sees all of them. */
const VISIBLE = `org_id = $1 and ${checkedCondition("allow_rules", "$2 = '' or project_id = '' or project_id = $2")}`;

export function* readAllowRule(org_id: string, project_id: string, id: string): Op<Row | undefined> {
  return (yield sql(`select body from allow_rules where ${VISIBLE} and id = $3`, [
    org_id,
    project_id,
    id,
  ]))[0];
}

export function* listAllowRules(values: SqlValue[]): Op<Row[]> {
  return yield sql(
    `select id, body from allow_rules where ${VISIBLE} and id < $3 order by id desc limit $4`,
    values,
  );
}

/** The rules that may cover a call in this scope: those of the org and of the project itself. */
export function* findAllowRules(org_id: string, project_id: string, package_id: string): Op<Row[]> {
  return yield sql(
    `select body from allow_rules where org_id = $1 and package_id = $3
      and ${checkedCondition("allow_rules", "project_id in ('', $2)")} order by id`,
    [org_id, project_id, package_id],
  );
}
