import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { checkedCondition, type Op, type Row, type SqlValue, sql } from "./op.ts";

export function* createKey(p: { row: SqlValue[]; records: ChangeRecordRows }): Op<void> {
  yield sql(
    "insert into api_keys (id, org_id, project_id, token_hash, revoked_at, body) values ($1, $2, $3, $4, $5, $6)",
    p.row,
  );
  yield* writeRecords(p.records);
}

export function* revokeKey(p: {
  id: string;
  org_id: string;
  project_id: string;
  at: string;
  records: ChangeRecordRows;
}): Op<boolean> {
  const revoked = yield sql(
    `update api_keys set revoked_at = $4 where id = $1 and org_id = $2 and ($3 = '' or project_id = $3)
      and revoked_at is null returning id`,
    [p.id, p.org_id, p.project_id, p.at],
  );
  if (revoked.length === 0) return false;
  yield* writeRecords(p.records);
  return true;
}

export function* readKey(token_hash: string): Op<Row | undefined> {
  return (yield sql("select body, revoked_at from api_keys where token_hash = $1", [token_hash]))[0];
}

export function* readKeyById(org_id: string, id: string): Op<Row | undefined> {
  const in_org = checkedCondition("api_keys", "org_id = $2");
  return (yield sql(`select body, revoked_at from api_keys where id = $1 and ${in_org}`, [id, org_id]))[0];
}

export function* listKeys(values: SqlValue[]): Op<Row[]> {
  return yield sql(
    `select id, body, revoked_at from api_keys
      where org_id = $1 and ${checkedCondition("api_keys", "$2 = '' or project_id = $2")} and id < $3
      order by id desc limit $4`,
    values,
  );
}
