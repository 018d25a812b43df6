import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { checkedCondition, type Op, type Row, sql } from "./op.ts";

export interface WriteDefinitions {
  org_id: string;
  binding_id: string;
  revision: number;
  body: string;
  records: ChangeRecordRows;
}

/**
 * The revision is an optimistic lock: of two writers that replace the same definitions, the second is refused and must
 * read again.
 */
export function* putDefinitions(p: WriteDefinitions): Op<boolean> {
  const [binding] = yield sql("select binding_id from bindings where binding_id = $1 and org_id = $2", [
    p.binding_id,
    p.org_id,
  ]);
  if (binding === undefined) return false;
  const written =
    p.revision === 1
      ? yield sql(
          `insert into definitions (binding_id, org_id, revision, body) values ($1, $2, 1, $3)
            on conflict (binding_id) do nothing returning binding_id`,
          [p.binding_id, p.org_id, p.body],
        )
      : yield sql(
          `update definitions set revision = $3, body = $4 where binding_id = $1 and org_id = $2 and revision = $5
            returning binding_id`,
          [p.binding_id, p.org_id, p.revision, p.body, p.revision - 1],
        );
  if (written.length === 0) return false;
  yield* writeRecords(p.records);
  return true;
}

export function* readDefinitions(org_id: string, binding_id: string): Op<Row | undefined> {
  return (yield sql(
    `select body from definitions where binding_id = $1 and ${checkedCondition("definitions", "org_id = $2")}`,
    [binding_id, org_id],
  ))[0];
}
