import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { checkedCondition, type Op, type Row, refuse, type SqlValue, sql } from "./op.ts";
import { writeHighestSigned } from "./trusted-keys.ts";

export interface InsertPackage {
  id: string;
  org_id: string;
  package_id: string;
  version: string;
  digest: string;
  body: string;
  records: ChangeRecordRows;
  /** A version with a valid signature, recorded even if the package already exists. Null if there is none to record. */
  highest: { version: string } | null;
}

/** Returns the body of the existing row, or null if this call created the row. */
export function* insertPackage(p: InsertPackage): Op<string | null> {
  if (p.highest !== null)
    yield* writeHighestSigned({ org_id: p.org_id, package_id: p.package_id, ...p.highest });
  const [existing] = yield findPackage(p.org_id, p.package_id, p.version);
  if (existing !== undefined) {
    if (existing.digest === p.digest) return existing.body as string;
    refuse("package.conflict", `${p.package_id} ${p.version} is already installed with different content.`, {
      package_id: p.package_id,
      version: p.version,
      installed: existing.digest,
      given: p.digest,
    });
  }
  yield sql(
    "insert into packages (id, org_id, package_id, version, digest, body) values ($1, $2, $3, $4, $5, $6)",
    [p.id, p.org_id, p.package_id, p.version, p.digest, p.body],
  );
  yield* writeRecords(p.records);
  return null;
}

export function* removePackage(p: { org_id: string; id: string; records: ChangeRecordRows }): Op<boolean> {
  const [row] = yield sql("select package_id, version from packages where id = $1 and org_id = $2", [
    p.id,
    p.org_id,
  ]);
  if (row === undefined) return false;
  const users = yield sql(
    `select binding_id from bindings where org_id = $1 and package_id = $2 and package_version = $3
      order by binding_id limit 100`,
    [p.org_id, row.package_id as string, row.version as string],
  );
  if (users.length > 0) {
    refuse("package.bound", "A binding uses the package.", {
      bindings: users.map((user) => user.binding_id),
    });
  }
  const removed = yield sql("delete from packages where id = $1 and org_id = $2 returning id", [
    p.id,
    p.org_id,
  ]);
  if (removed.length === 0) return false;
  const identity = [p.org_id, row.package_id as string];
  const others = yield sql("select id from packages where org_id = $1 and package_id = $2 limit 1", identity);
  // Another publisher's package may later be installed under this id.
  if (others.length === 0)
    yield sql("delete from allow_rules where org_id = $1 and package_id = $2", identity);
  yield* writeRecords(p.records);
  return true;
}

export function findPackage(org_id: string, package_id: string, version: string) {
  return sql("select body, digest from packages where org_id = $1 and package_id = $2 and version = $3", [
    org_id,
    package_id,
    version,
  ]);
}

export function* readPackage(org_id: string, id: string): Op<Row | undefined> {
  return (yield sql(
    `select body from packages where id = $1 and ${checkedCondition("packages", "org_id = $2")}`,
    [id, org_id],
  ))[0];
}

export function* listPackages(values: SqlValue[]): Op<Row[]> {
  return yield sql(
    "select id, body from packages where org_id = $1 and id < $2 order by id desc limit $3",
    values,
  );
}

export function* digestInUse(digest: string): Op<boolean> {
  return (yield sql("select id from packages where digest = $1 limit 1", [digest])).length > 0;
}
