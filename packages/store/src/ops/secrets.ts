import { listBindingsUsing } from "./bindings.ts";
import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { checkedCondition, type Op, type Row, refuse, sql } from "./op.ts";

const SECRET_COLUMNS = "name, org_id, project_id, last4, version, created_at, updated_at";

/**
 * A project creates and replaces only its own secrets. The whole org ('') replaces any secret and leaves its owner
 * unchanged.
 */
export function* putSecret(p: {
  org_id: string;
  project_id: string;
  name: string;
  ciphertext: string;
  last4: string;
  now: string;
  records: ChangeRecordRows;
}): Op<Row> {
  const [row] = yield sql(
    `insert into secrets (org_id, name, ciphertext, last4, version, created_at, updated_at, project_id)
      values ($1, $2, $3, $4, 1, $5, $5, $6)
      on conflict (org_id, name) do update set ciphertext = excluded.ciphertext, last4 = excluded.last4,
        version = secrets.version + 1, updated_at = excluded.updated_at
        where excluded.project_id = '' or secrets.project_id = excluded.project_id
      returning ${SECRET_COLUMNS}`,
    [p.org_id, p.name, p.ciphertext, p.last4, p.now, p.project_id],
  );
  if (row === undefined) return refuseOtherOwner(p.name);
  yield* writeRecords(p.records);
  return row;
}

function refuseOtherOwner(name: string): never {
  refuse("policy.denied", `The secret ${name} belongs to the whole organization or to another project.`);
}

export function* removeSecret(p: {
  org_id: string;
  project_id: string;
  name: string;
  ref: string;
  records: ChangeRecordRows;
}): Op<boolean> {
  const [stored] = yield sql("select project_id from secrets where org_id = $1 and name = $2", [
    p.org_id,
    p.name,
  ]);
  if (stored === undefined) return false;
  if (p.project_id !== "" && stored.project_id !== p.project_id) refuseOtherOwner(p.name);
  const used_by = yield* listBindingsUsing(p.org_id, p.ref);
  if (used_by.length > 0) refuse("secret.in_use", "A binding uses this secret.", { used_by });
  const removed = yield sql("delete from secrets where org_id = $1 and name = $2 returning name", [
    p.org_id,
    p.name,
  ]);
  if (removed.length === 0) return false;
  yield* writeRecords(p.records);
  return true;
}

export function* readSecret(org_id: string, name: string): Op<Row | undefined> {
  return (yield sql(`select ${SECRET_COLUMNS}, ciphertext from secrets where org_id = $1 and name = $2`, [
    org_id,
    name,
  ]))[0];
}

/** Sorted by name, because a secret has no id that reflects its age. A project sees its own secrets and the org's. */
export function* listSecrets(org_id: string, project_id: string, after: string, limit: number): Op<Row[]> {
  return yield sql(
    `select ${SECRET_COLUMNS} from secrets where org_id = $1 and name > $2
      and ${checkedCondition("secrets", "$3 = '' or project_id = '' or project_id = $3")} order by name limit $4`,
    [org_id, after, project_id, limit],
  );
}
