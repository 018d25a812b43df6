import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { checkedCondition, type Op, type Row, refuse, type SqlValue, sql } from "./op.ts";
import { findPackage } from "./packages.ts";

export interface WriteBinding {
  binding_id: string;
  org_id: string;
  project_id: string;
  package_id: string;
  package_version: string;
  export_id: string;
  kind: string;
  status: string;
  generation: number;
  refs: string[];
  body: string;
  records: ChangeRecordRows;
}

/** If `expected_revision` is set, the write is refused when a binding of the org has changed since that revision. */
interface ExpectedRevision {
  expected_revision: number | null;
}

export function* createBinding(p: WriteBinding & ExpectedRevision): Op<void> {
  yield* raiseRevision(p.org_id, p.expected_revision);
  yield* insertBinding(p);
}

export function* insertBinding(p: WriteBinding): Op<void> {
  yield* requireBindable(p);
  yield sql(
    `insert into bindings (binding_id, org_id, project_id, package_id, package_version, export_id, kind, status, generation, body)
      values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
    [
      p.binding_id,
      p.org_id,
      p.project_id,
      p.package_id,
      p.package_version,
      p.export_id,
      p.kind,
      p.status,
      p.generation,
      p.body,
    ],
  );
  yield* writeRefs(p);
  yield* writeRecords(p.records);
}

export function* updateBinding(p: WriteBinding & ExpectedRevision & { expected: number }): Op<boolean> {
  yield* raiseRevision(p.org_id, p.expected_revision);
  return yield* replaceBinding(p);
}

/** The generation is an optimistic lock: of writers that read the same generation, exactly one succeeds. */
function* replaceBinding(p: WriteBinding & { expected: number }): Op<boolean> {
  yield* requireBindable(p);
  const updated = yield sql(
    `update bindings set package_version = $5, status = $6, generation = $7, body = $8
      where binding_id = $1 and org_id = $2 and project_id = $3 and generation = $4 returning binding_id`,
    [p.binding_id, p.org_id, p.project_id, p.expected, p.package_version, p.status, p.generation, p.body],
  );
  if (updated.length === 0) return false;
  yield sql("delete from binding_secrets where binding_id = $1", [p.binding_id]);
  yield* writeRefs(p);
  yield* writeRecords(p.records);
  return true;
}

export interface UpdateBindings extends ExpectedRevision {
  org_id: string;
  changes: (WriteBinding & { expected: number })[];
}

export function* updateBindings(p: UpdateBindings): Op<void> {
  yield* raiseRevision(p.org_id, p.expected_revision);
  yield* replaceBindings(p.changes);
}

/** All or nothing: the first binding that changed since it was read aborts the transaction. */
export function* replaceBindings(changes: UpdateBindings["changes"]): Op<void> {
  for (const change of changes) {
    if (yield* replaceBinding(change)) continue;
    refuse(
      "binding.conflict",
      `The binding ${change.binding_id} was changed at the same time. No binding was updated.`,
      {
        binding_id: change.binding_id,
      },
    );
  }
}

interface KeptSettings {
  project_id: string;
  package_id: string;
  config: string;
}

export interface RemoveBinding {
  org_id: string;
  project_id: string;
  id: string;
  /** Null accepts any generation. */
  expected: number | null;
  /** The configuration that a later binding of the package begins with; null leaves the kept one unchanged. */
  kept: KeptSettings | null;
  records: ChangeRecordRows;
}

export function* removeBinding(p: RemoveBinding): Op<boolean> {
  yield* raiseRevision(p.org_id, null);
  return yield* deleteBinding(p);
}

/** An empty configuration removes the kept one. */
function* keepSettings(org_id: string, { project_id, package_id, config }: KeptSettings): Op<void> {
  const key = [org_id, project_id, package_id];
  if (config === "{}") {
    yield sql("delete from kept_settings where org_id = $1 and project_id = $2 and package_id = $3", key);
    return;
  }
  yield sql(
    `insert into kept_settings (org_id, project_id, package_id, config) values ($1, $2, $3, $4)
      on conflict (org_id, project_id, package_id) do update set config = excluded.config`,
    [...key, config],
  );
}

export function* readKeptSettings(
  org_id: string,
  project_id: string,
  package_id: string,
): Op<Row | undefined> {
  const [row] = yield sql(
    "select config from kept_settings where org_id = $1 and project_id = $2 and package_id = $3",
    [org_id, project_id, package_id],
  );
  return row;
}

/** A project may remove only its own bindings; the whole org may remove any binding. */
export function* deleteBinding(p: RemoveBinding): Op<boolean> {
  const generation = p.expected === null ? "" : "and generation = $4";
  const values = [p.id, p.org_id, p.project_id];
  const removed = yield sql(
    `delete from bindings where binding_id = $1 and org_id = $2 and ($3 = '' or project_id = $3) ${generation}
      returning binding_id`,
    p.expected === null ? values : [...values, p.expected],
  );
  if (removed.length === 0) return false;
  yield sql("delete from binding_secrets where binding_id = $1", [p.id]);
  yield sql("delete from definitions where binding_id = $1", [p.id]);
  yield sql("delete from sign_ins where binding_id = $1", [p.id]);
  yield sql("delete from logins where binding_id = $1", [p.id]);
  yield sql("delete from sampling_uses where binding_id = $1", [p.id]);
  if (p.kept !== null) yield* keepSettings(p.org_id, p.kept);
  yield* writeRecords(p.records);
  return true;
}

/**
 * Every change to a binding raises the revision of its org. The row of the revision stays locked until the transaction
 * ends, so of two changes that were checked against the same bindings, the second is refused and checked again.
 */
export function* raiseRevision(org_id: string, expected_revision: number | null): Op<void> {
  const [row] = yield sql(
    `insert into binding_revisions (org_id, revision) values ($1, 1)
      on conflict (org_id) do update set revision = binding_revisions.revision + 1 returning revision`,
    [org_id],
  );
  if (expected_revision === null || expected_revision === Number(row!.revision) - 1) return;
  refuse("binding.conflict", "Another binding was changed at the same time.", {
    names_at: expected_revision,
  });
}

export function* readRevision(org_id: string): Op<number> {
  const [row] = yield sql("select revision from binding_revisions where org_id = $1", [org_id]);
  return Number(row?.revision ?? 0);
}

function* requireBindable(p: WriteBinding): Op<void> {
  const [package_] = yield findPackage(p.org_id, p.package_id, p.package_version);
  if (package_ === undefined) {
    refuse("package.not_found", `${p.package_id} ${p.package_version} is not installed.`);
  }
  const [existing] = yield sql(
    `select binding_id from bindings where org_id = $1 and project_id = $2 and package_id = $3
      and package_version = $4 and export_id = $5 and binding_id <> $6`,
    [p.org_id, p.project_id, p.package_id, p.package_version, p.export_id, p.binding_id],
  );
  if (existing !== undefined) {
    refuse("binding.conflict", `${p.export_id} of ${p.package_id} ${p.package_version} is already bound.`, {
      binding_id: existing.binding_id,
    });
  }
}

function* writeRefs(p: WriteBinding): Op<void> {
  for (const ref of p.refs) {
    yield sql("insert into binding_secrets (org_id, ref, binding_id) values ($1, $2, $3)", [
      p.org_id,
      ref,
      p.binding_id,
    ]);
  }
}

const SELECT_WITH_PACKAGE = `select b.binding_id, b.body, p.id as package_row, p.body as package from bindings b
  join packages p on p.org_id = b.org_id and p.package_id = b.package_id and p.version = b.package_version`;
/** $1 is the org, $2 the project. A project sees its own rows and the org's, the whole org ('') sees all rows. */
const VISIBLE = `b.org_id = $1 and ${checkedCondition("b", "$2 = '' or b.project_id = '' or b.project_id = $2")}`;

export function* readBinding(values: SqlValue[]): Op<Row | undefined> {
  return (yield sql(`${SELECT_WITH_PACKAGE} where b.binding_id = $3 and ${VISIBLE}`, values))[0];
}

export function* listBindings(values: SqlValue[]): Op<Row[]> {
  return yield sql(
    `select b.binding_id as id, b.body from bindings b where ${VISIBLE} and b.binding_id < $3
      and ${checkedCondition("b", "($4 = '' or b.kind = $4) and ($5 = '' or b.package_id = $5)")}
      order by b.binding_id desc limit $6`,
    values,
  );
}

/** Includes bindings of whole packages, whose exports are not known here. */
export function* listCandidateBindings(values: SqlValue[]): Op<Row[]> {
  return yield sql(
    `${SELECT_WITH_PACKAGE} where ${VISIBLE} and b.export_id in ($3, '*')
      and ${checkedCondition("b", "$4 = '' or b.package_id = $4")} order by b.binding_id`,
    values,
  );
}

export function* listActiveBindings(values: SqlValue[]): Op<Row[]> {
  return yield sql(
    `${SELECT_WITH_PACKAGE} where ${VISIBLE} and ${checkedCondition("b", "b.kind = $3 and b.status = 'active'")}
      order by b.binding_id`,
    values,
  );
}

export function* listWholePackageBindings(): Op<Row[]> {
  return yield sql(
    `${SELECT_WITH_PACKAGE} where ${checkedCondition("b", "b.export_id = '*' and b.status = 'active'")} order by b.binding_id`,
    [],
  );
}

/** A hook of the org receives all events of the org; a hook of a project receives the events of that project. */
export function* listActiveHooks(values: SqlValue[]): Op<Row[]> {
  return yield sql(
    `${SELECT_WITH_PACKAGE} where b.org_id = $1
      and ${checkedCondition("b", "b.project_id in ('', $2) and b.kind = 'hook' and b.status = 'active'")}
      order by b.binding_id`,
    values,
  );
}

export function* listBindingsUsing(org_id: string, ref: string): Op<string[]> {
  const rows = yield sql(
    "select binding_id from binding_secrets where org_id = $1 and ref = $2 order by binding_id",
    [org_id, ref],
  );
  return rows.map((row) => row.binding_id as string);
}
