/** Secrets, API keys and the audit chain. */

import { bindingsUsing } from "./bindings.ts";
import { type FactRows, writeFacts } from "./facts.ts";
import { type Op, type Row, refuse, type SqlValue, sql } from "./op.ts";

const SECRET = "name, org_id, project_id, last4, version, created_at, updated_at";

/** A project creates its own and replaces its own alone; the whole org ('') replaces any, and its owner stays. */
export function* putSecret(p: {
  org_id: string;
  project_id: string;
  name: string;
  ciphertext: string;
  last4: string;
  now: string;
  facts: FactRows;
}): Op<Row> {
  const [row] = yield sql(
    `insert into secrets (org_id, name, ciphertext, last4, version, created_at, updated_at, project_id)
      values ($1, $2, $3, $4, 1, $5, $5, $6)
      on conflict (org_id, name) do update set ciphertext = excluded.ciphertext, last4 = excluded.last4,
        version = secrets.version + 1, updated_at = excluded.updated_at
        where excluded.project_id = '' or secrets.project_id = excluded.project_id
      returning ${SECRET}`,
    [p.org_id, p.name, p.ciphertext, p.last4, p.now, p.project_id],
  );
  if (row === undefined) refuseForeign(p.name);
  yield* writeFacts(p.facts);
  return row!;
}

function refuseForeign(name: string): void {
  refuse("policy.denied", `the secret ${name} belongs to the whole org or to another project`);
}

export function* removeSecret(p: {
  org_id: string;
  project_id: string;
  name: string;
  ref: string;
  facts: FactRows;
}): Op<boolean> {
  const [held] = yield sql("select project_id from secrets where org_id = $1 and name = $2", [
    p.org_id,
    p.name,
  ]);
  if (held === undefined) return false;
  if (p.project_id !== "" && held.project_id !== p.project_id) refuseForeign(p.name);
  const used_by = yield* bindingsUsing(p.org_id, p.ref);
  if (used_by.length > 0) refuse("secret.in_use", "A binding uses this secret.", { used_by });
  const gone = yield sql("delete from secrets where org_id = $1 and name = $2 returning name", [
    p.org_id,
    p.name,
  ]);
  if (gone.length === 0) return false;
  yield* writeFacts(p.facts);
  return true;
}

export function* readSecret(org_id: string, name: string): Op<Row | undefined> {
  return (yield sql(`select ${SECRET}, ciphertext from secrets where org_id = $1 and name = $2`, [
    org_id,
    name,
  ]))[0];
}

/** By name: a secret has no id that tells its age. A project sees its own and the org's. */
export function* listSecrets(org_id: string, project_id: string, after: string, limit: number): Op<Row[]> {
  return yield sql(
    `select ${SECRET} from secrets where org_id = $1 and name > $2
      and ($3 = '' or project_id = '' or project_id = $3) order by name limit $4`,
    [org_id, after, project_id, limit],
  );
}

export function* createKey(p: { row: SqlValue[]; facts: FactRows }): Op<void> {
  yield sql(
    "insert into api_keys (id, org_id, project_id, token_hash, revoked_at, body) values ($1, $2, $3, $4, $5, $6)",
    p.row,
  );
  yield* writeFacts(p.facts);
}

export function* revokeKey(p: {
  id: string;
  org_id: string;
  project_id: string;
  at: string;
  facts: FactRows;
}): Op<boolean> {
  const hit = yield sql(
    `update api_keys set revoked_at = $4 where id = $1 and org_id = $2 and ($3 = '' or project_id = $3)
      and revoked_at is null returning id`,
    [p.id, p.org_id, p.project_id, p.at],
  );
  if (hit.length === 0) return false;
  yield* writeFacts(p.facts);
  return true;
}

export function* readKey(token_hash: string): Op<Row | undefined> {
  return (yield sql("select body, revoked_at from api_keys where token_hash = $1", [token_hash]))[0];
}

export function* readKeyById(org_id: string, id: string): Op<Row | undefined> {
  return (yield sql("select body, revoked_at from api_keys where id = $1 and org_id = $2", [id, org_id]))[0];
}

export function* listKeys(values: SqlValue[]): Op<Row[]> {
  return yield sql(
    `select id, body, revoked_at from api_keys where org_id = $1 and ($2 = '' or project_id = $2) and id < $3
      order by id desc limit $4`,
    values,
  );
}

const AUDIT = "seq, id, at, org_id, project_id, actor, action, subject, details, hash";

export function* listAudit(
  org_id: string,
  project_id: string,
  action: string,
  before: number,
  limit: number,
): Op<Row[]> {
  const conditions = ["org_id = $1", "seq < $2"];
  const values: SqlValue[] = [org_id, before, limit];
  if (project_id !== "") conditions.push(`project_id = $${values.push(project_id)}`);
  if (action !== "") conditions.push(`action = $${values.push(action)}`);
  return yield sql(
    `select ${AUDIT} from audit where ${conditions.join(" and ")} order by seq desc limit $3`,
    values,
  );
}

/** One stretch of the whole chain, all orgs, for checking it. */
export function* readChain(after: number, limit: number): Op<Row[]> {
  return yield sql(`select ${AUDIT} from audit where seq > $1 order by seq limit $2`, [after, limit]);
}

export function* readChainHash(seq: number): Op<Row | undefined> {
  return (yield sql("select hash from audit where seq = $1", [seq]))[0];
}

export function* readChainHead(): Op<Row> {
  return (yield sql("select seq, hash from audit_head where one = 1"))[0]!;
}
