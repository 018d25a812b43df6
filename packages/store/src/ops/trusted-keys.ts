import { compareVersions } from "@backplane/contract";
import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { type Op, type Row, refuse, type SqlValue, sql } from "./op.ts";

export interface CreateTrustedKey {
  key_id: string;
  /** id, org_id, key_id, body */
  row: SqlValue[];
  records: ChangeRecordRows;
}

export function* createTrustedKey(p: CreateTrustedKey): Op<void> {
  const created = yield sql(
    `insert into trusted_keys (id, org_id, key_id, body) values ($1, $2, $3, $4)
      on conflict (org_id, key_id) do nothing returning id`,
    p.row,
  );
  if (created.length === 0)
    refuse("trusted_key.conflict", `The key ${p.key_id} is already stored.`, { key_id: p.key_id });
  yield* writeRecords(p.records);
}

export function* replaceTrustedKey(p: {
  org_id: string;
  id: string;
  before: string;
  body: string;
  records: ChangeRecordRows;
}): Op<boolean> {
  const changed = yield sql(
    "update trusted_keys set body = $3 where org_id = $1 and id = $2 and body = $4 returning id",
    [p.org_id, p.id, p.body, p.before],
  );
  if (changed.length === 0) return false;
  yield* writeRecords(p.records);
  return true;
}

export function* readTrustedKey(org_id: string, id: string): Op<Row | undefined> {
  return (yield sql("select body from trusted_keys where org_id = $1 and id = $2", [org_id, id]))[0];
}

export function* readTrustedKeyByKeyId(org_id: string, key_id: string): Op<Row | undefined> {
  return (yield sql("select body from trusted_keys where org_id = $1 and key_id = $2", [org_id, key_id]))[0];
}

export function* listTrustedKeys(values: SqlValue[]): Op<Row[]> {
  return yield sql(
    "select id, body from trusted_keys where org_id = $1 and id < $2 order by id desc limit $3",
    values,
  );
}

export function* readHighestSigned(org_id: string, package_id: string): Op<string | null> {
  const [row] = yield sql("select version from signed_versions where org_id = $1 and package_id = $2", [
    org_id,
    package_id,
  ]);
  return row === undefined ? null : (row.version as string);
}

/**
 * Stores `version` unless a higher one is stored. Another node may change the row between the two statements, so the
 * write requires the version that was compared; otherwise both statements are repeated.
 */
export function* writeHighestSigned(p: { org_id: string; package_id: string; version: string }): Op<void> {
  for (;;) {
    const stored = yield* readHighestSigned(p.org_id, p.package_id);
    if (stored !== null && compareVersions(p.version, stored) <= 0) return;
    const written = yield sql(
      `insert into signed_versions (org_id, package_id, version) values ($1, $2, $3)
        on conflict (org_id, package_id) do update set version = excluded.version
          where signed_versions.version = $4 returning version`,
      [p.org_id, p.package_id, p.version, stored ?? ""],
    );
    if (written.length > 0) return;
  }
}
