/**
 * Maintenance of a SQLite store by an operator: check, back up, restore, repair. The files that a repair or a restore
 * changes are first kept in a folder next to the store. The caller has locked the home, except for checks and backups.
 */
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { BackplaneError, diskFault } from "@backplane/contract";
import { commitFilePath, readCommitFile, readState, resetCommitFile } from "../connection/commit-counter.ts";
import { openConnection, type SqliteConnection } from "../connection/connection.ts";
import { damageOf } from "../connection/driver-errors.ts";
import { checksummedTables, checksumOf, type DamagedRow, STATE_TABLE } from "../connection/row-checksums.ts";
import { sqliteDiskFault } from "../connection/sqlite-error.ts";
import { syncPath } from "../connection/sync-path.ts";
import { checkCommits, timestampForName } from "./check-at-open.ts";
import { checkHeader, type FileDamage, findDamage } from "./check-file.ts";
import { buildRestoreAdvice, damagedStoreError, listBackups } from "./restore-advice.ts";

export interface StoreReport extends FileDamage {
  file: string;
  /** The size of the file and of its WAL. */
  bytes: number;
  /** Acknowledged commits that the store does not have. */
  lost_commits: number;
  /** Newest first. */
  backups: string[];
  /** The next step for the operator; empty when nothing is damaged. */
  fix: string;
}

/** The file and its WAL, which holds most of a young store. */
export function readStoreSize(file: string): number {
  return sizeOf(file) + sizeOf(`${file}-wal`);
}

/** Reads the whole store and changes nothing. `running`: a gateway has the file open. */
export function checkStoreFile(file: string, running: boolean): StoreReport {
  const report = { file, bytes: readStoreSize(file), lost_commits: 0, backups: listBackups(file), fix: "" };
  const structure: string[] = [];
  try {
    checkHeader(file);
    if (!existsSync(file)) return { ...report, structure, rows: [] };
    return withCopy(file, running, (connection) => {
      const counted = readCommitFile(file);
      const damage = findDamage(connection.database);
      const state = readState(connection) ?? { count: 0 };
      // A running gateway may commit between the two reads; the count is then behind, never ahead.
      const lost_commits = typeof counted === "object" ? Math.max(0, counted.count - state.count) : 0;
      if (counted === "damaged")
        damage.structure.push(`${commitFilePath(file)} (the count of commits) is damaged`);
      const damaged = damage.structure.length + damage.rows.length + lost_commits > 0;
      return { ...report, ...damage, lost_commits, fix: damaged ? buildRestoreAdvice(file) : "" };
    });
  } catch (error) {
    // A disk without space for the copy does not mean that the store is damaged.
    const fault =
      sqliteDiskFault(error, file) ??
      (isOpenFailure(error) ? unavailableError(error, `${file} could not be checked`) : null);
    if (fault !== null) throw fault;
    structure.push((damageOf(error)?.message ?? (error as Error).message).trim());
    return { ...report, structure, rows: [], fix: buildRestoreAdvice(file) };
  }
}

/** A store that is not open is read from a copy, because opening it would change its files. */
function withCopy<T>(file: string, running: boolean, work: (connection: SqliteConnection) => T): T {
  if (running) return withConnection(openConnection(file, "read"), work);
  const folder = join(dirname(file), `.${basename(file)}.check-${process.pid}`);
  mkdirSync(folder, { mode: 0o700 });
  try {
    for (const part of ["", "-wal"]) {
      if (existsSync(`${file}${part}`)) copyFileSync(`${file}${part}`, join(folder, `copy${part}`));
    }
    return withConnection(openConnection(join(folder, "copy"), "write"), work);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function withConnection<T>(connection: SqliteConnection, work: (connection: SqliteConnection) => T): T {
  try {
    return work(connection);
  } finally {
    connection.close();
  }
}

/** Writes a complete, verified copy to `to`, which must not exist. A running gateway is not interrupted. */
export function backUpStoreFile(file: string, to: string, running: boolean): void {
  if (existsSync(to))
    throw new BackplaneError("request.invalid", `${to} already exists; specify another file.`);
  if (!existsSync(file))
    throw new BackplaneError("request.invalid", `${file} does not exist, so there is nothing to back up.`);
  checkHeader(file);
  const partial = `${to}.partial`;
  const removePartial = () => {
    for (const part of ["", "-wal", "-shm", "-journal"]) rmSync(`${partial}${part}`, { force: true });
  };
  removePartial();
  try {
    copyVerified(file, partial, running);
    syncPath(partial);
    renameSync(partial, to);
  } catch (error) {
    throw (
      sqliteDiskFault(error, to) ??
      (isOpenFailure(error) ? unavailableError(error, `The store could not be copied to ${to}`) : error)
    );
  } finally {
    removePartial();
  }
}

const CANTOPEN = 14;

function isOpenFailure(error: unknown): boolean {
  const { errcode } = (error ?? {}) as { errcode?: unknown };
  return typeof errcode === "number" && (errcode & 0xff) === CANTOPEN;
}

/** SQLite does not report why it cannot open or create a file. */
function unavailableError(cause: unknown, problem: string): BackplaneError {
  return new BackplaneError("store.unavailable", `${problem}: ${(cause as Error).message}.`, {
    fix: "Check the free space and the permissions of its folder, then try again.",
    cause,
  });
}

function copyVerified(file: string, to: string, running: boolean): void {
  withConnection(openConnection(file, running ? "read" : "write"), (connection) => {
    connection.exec(`vacuum into '${to.replaceAll("'", "''")}'`);
  });
  const { structure, rows } = withConnection(openConnection(to, "write"), ({ database }) =>
    findDamage(database),
  );
  if (structure.length + rows.length > 0) {
    const damage = [...structure, ...rows.map(({ table, id }) => `row ${id} of ${table}`)]
      .slice(0, 3)
      .join("; ");
    throw damagedStoreError(file, `${file} is damaged, so no backup was made: ${damage}.`);
  }
}

/** Replaces the store with a backup. Returns the folder with the previous files. */
export function restoreStoreFile(file: string, backup: string): string {
  if (!existsSync(backup)) throw new BackplaneError("request.invalid", `${backup} does not exist.`);
  const check = checkStoreFile(backup, false);
  if (check.structure.length + check.rows.length > 0) {
    throw new BackplaneError(
      "store.damaged",
      `${backup} is damaged too, so it was not restored: ${check.structure[0] ?? "some of its rows are damaged"}.`,
      {
        fix: "Specify another backup.",
      },
    );
  }
  // Copied before the store is moved aside, so that a full disk leaves the home as it was.
  const draft = `${file}.restoring`;
  try {
    copyFileSync(backup, draft);
    syncPath(draft);
    const kept = keepFiles(file, "before-restore", true);
    renameSync(draft, file);
    syncPath(dirname(file));
    return kept;
  } catch (error) {
    rmSync(draft, { force: true });
    throw diskFault(error, file) ?? error;
  }
}

export interface RepairResult {
  /** The folder with the previous files. */
  kept: string;
  lost_commits: number;
  /** The damaged rows: removed from the store, or kept with a new checksum (see NEVER_REMOVED). */
  rows: { table: string; id: string }[];
  /** Damage to indexes, which were rebuilt. */
  indexes: string[];
}

/**
 * Keeps intact data. Throws when the file cannot be repaired and has to be restored from a backup and, without
 * `accept_loss`, when acknowledged commits are missing.
 */
export function repairStoreFile(file: string, accept_loss: boolean): RepairResult {
  checkHeader(file);
  if (!existsSync(file))
    throw new BackplaneError("request.invalid", `${file} does not exist, so there is nothing to repair.`);
  const kept = keepFiles(file, "before-repair", false);
  const connection = openConnection(file, "write");
  return withConnection(connection, () => {
    if (!accept_loss) checkCommits(connection, file, undefined);
    const { database } = connection;
    const index_damage = findDamage(database).structure;
    if (index_damage.length > 0) {
      database.exec("reindex");
      const remaining = findDamage(database).structure;
      if (remaining.length > 0) {
        throw damagedStoreError(
          file,
          `${file} cannot be repaired: ${remaining.slice(0, 3).join("; ")}. Its files are kept in ${kept}.`,
        );
      }
    }
    const rows = moveDamagedRowsAside(database, join(kept, "damaged-rows.jsonl"));
    const counted = readCommitFile(file);
    const state = readState(connection) ?? { count: 0, at: 0 };
    const lost_commits = typeof counted === "object" ? Math.max(0, counted.count - state.count) : 0;
    if (lost_commits > 0 || counted === "damaged") resetCommitFile(file, state, null);
    return { kept, lost_commits, rows, indexes: index_damage };
  });
}

/** Keeps the files of a store in a new folder next to it. */
function keepFiles(file: string, reason: string, move: boolean): string {
  const kept = `${file}.${reason}-${timestampForName()}`;
  mkdirSync(kept, { mode: 0o700 });
  try {
    writeFileSync(join(kept, "README"), `The files of ${file} as they were (${reason}).\n`);
    for (const part of ["", "-wal", "-shm", ".commits"]) {
      if (!existsSync(`${file}${part}`)) continue;
      const to = join(kept, `${basename(file)}${part}`);
      if (move) renameSync(`${file}${part}`, to);
      else copyFileSync(`${file}${part}`, to);
    }
  } catch (error) {
    if (!move) rmSync(kept, { recursive: true, force: true });
    throw diskFault(error, kept) ?? error;
  }
  return kept;
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/**
 * Rows of the audit log are never removed: its hashes show what was changed, so they only get a new checksum. The other
 * two tables have a single row, which the store needs.
 */
const NEVER_REMOVED = new Set(["audit", "audit_head", STATE_TABLE]);

/** Writes each damaged row as a line of JSON to `file`, then removes it or, in NEVER_REMOVED, sets a new checksum. */
function moveDamagedRowsAside(database: DatabaseSync, file: string): DamagedRow[] {
  const damaged: DamagedRow[] = [];
  database.exec("pragma foreign_keys = off; begin immediate");
  for (const { name, columns, key_count, has_rowid, has_checksum } of checksummedTables(database)) {
    if (!has_checksum) continue;
    const quoted = columns.map((column) => `"${column}"`);
    const find = database.prepare(
      `select ${has_rowid ? "rowid as own_rowid, " : ""}${quoted.join(", ")} from "${name}" where sum is not row_checksum(${quoted.join(", ")})`,
    );
    const where = has_rowid
      ? "rowid = ?"
      : quoted
          .slice(0, key_count)
          .map((column) => `${column} is ?`)
          .join(" and ");
    for (const row of find.all()) {
      const values = columns.map((column) => row[column]!);
      const key_values = has_rowid ? [row.own_rowid!] : values.slice(0, key_count);
      const id = values
        .slice(0, key_count)
        .map((value) => JSON.stringify(String(value)))
        .join(", ");
      appendFileSync(file, `${JSON.stringify({ table: name, row: { ...row, own_rowid: undefined } })}\n`, {
        mode: 0o600,
      });
      if (NEVER_REMOVED.has(name))
        database
          .prepare(`update "${name}" set sum = ? where ${where}`)
          .run(checksumOf(values), ...key_values);
      else database.prepare(`delete from "${name}" where ${where}`).run(...key_values);
      damaged.push({ table: name, id });
    }
  }
  database.exec("commit");
  return damaged;
}
