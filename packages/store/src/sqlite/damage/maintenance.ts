/**
 * What an operator does with the files of a SQLite store: check, back up, restore, repair. Nothing is overwritten: what
 * a repair or a restore replaces is moved into a folder beside the store first. Except for checks and backups the caller
 * holds the home's lock.
 */
import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { countFile, readCount, readState, resetCount } from "../connection/commit-counter.ts";
import { type Connection, openConnection } from "../connection/connection.ts";
import { damageOf } from "../connection/driver-errors.ts";
import { checkCommits, stamp } from "./check-at-open.ts";
import { checkHeader, type FileDamage, findDamage } from "./check-file.ts";
import { backupsOf, damagedStore, restoreAdvice } from "./restore-advice.ts";
import { setDamagedRowsAside } from "./set-aside.ts";

export interface StoreReport extends FileDamage {
  file: string;
  /** With what is still in its WAL. */
  bytes: number;
  /** Acknowledged commits that the store does not have. */
  lost_commits: number;
  /** The newest first. */
  backups: string[];
  /** What to do; empty when nothing is damaged. */
  fix: string;
}

/** The file and its WAL, which holds most of a young store. */
export function storeBytes(file: string): number {
  return sizeOf(file) + sizeOf(`${file}-wal`);
}

/** Reads everything and changes nothing. `running`: a gateway has the file open. */
export function checkStoreFile(file: string, running: boolean): StoreReport {
  const report = { file, bytes: storeBytes(file), lost_commits: 0, backups: backupsOf(file), fix: "" };
  const structure: string[] = [];
  try {
    checkHeader(file);
    if (!existsSync(file)) return { ...report, structure, rows: [] };
    return withCopy(file, running, (connection) => {
      const counted = readCount(file);
      const found = findDamage(connection.database);
      const state = readState(connection) ?? { count: 0 };
      // A gateway that runs may commit between the two reads; the count is then behind, never ahead.
      const lost_commits = typeof counted === "object" ? Math.max(0, counted.count - state.count) : 0;
      if (counted === "damaged") found.structure.push(`${countFile(file)} (the count of commits) is damaged`);
      const damaged = found.structure.length + found.rows.length + lost_commits > 0;
      return { ...report, ...found, lost_commits, fix: damaged ? restoreAdvice(file) : "" };
    });
  } catch (error) {
    structure.push((damageOf(error)?.message ?? (error as Error).message).trim());
    return { ...report, structure, rows: [], fix: restoreAdvice(file) };
  }
}

/** A store that nobody has open is read from a copy: opening it would change its files. */
function withCopy<T>(file: string, running: boolean, work: (connection: Connection) => T): T {
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

function withConnection<T>(connection: Connection, work: (connection: Connection) => T): T {
  try {
    return work(connection);
  } finally {
    connection.close();
  }
}

/** A whole, checked copy under `to`, which must not be there; a running gateway goes on working. */
export function backUpStoreFile(file: string, to: string, running: boolean): void {
  if (existsSync(to))
    throw new BackplaneError("request.invalid", `${to} is there already; name another file.`);
  if (!existsSync(file))
    throw new BackplaneError("request.invalid", `${file} is not there; there is nothing to back up.`);
  checkHeader(file);
  const partial = `${to}.partial`;
  rmSync(partial, { force: true });
  withConnection(openConnection(file, running ? "read" : "write"), (connection) => {
    connection.exec(`vacuum into '${partial.replaceAll("'", "''")}'`);
  });
  const { structure, rows } = withConnection(openConnection(partial, "write"), ({ database }) =>
    findDamage(database),
  );
  if (structure.length + rows.length > 0) {
    rmSync(partial);
    const what = [...structure, ...rows.map(({ table, id }) => `row ${id} of ${table}`)]
      .slice(0, 3)
      .join("; ");
    throw damagedStore(file, `${file} is damaged, so no backup was made: ${what}.`);
  }
  for (const part of ["-wal", "-shm"]) rmSync(`${partial}${part}`, { force: true });
  sync(partial);
  renameSync(partial, to);
}

/** Puts a backup in the store's place. Answers the folder with the files that were there. */
export function restoreStoreFile(file: string, backup: string): string {
  if (!existsSync(backup)) throw new BackplaneError("request.invalid", `${backup} is not there.`);
  const found = checkStoreFile(backup, false);
  if (found.structure.length + found.rows.length > 0) {
    throw new BackplaneError(
      "store.damaged",
      `${backup} is damaged itself, so it was not put in place: ${found.structure[0] ?? "some of its rows are"}.`,
      {
        fix: "Name another backup.",
      },
    );
  }
  const kept = keepFiles(file, "before-restore", true);
  copyFileSync(backup, file);
  sync(file);
  return kept;
}

export interface Repaired {
  /** The folder with the files as they were. */
  kept: string;
  lost_commits: number;
  /** Damaged rows that were taken out of the store, by table. */
  rows: { table: string; id: string }[];
  /** What was wrong with indexes, which were built anew. */
  indexes: string[];
}

/** Keeps what is whole. Throws when the file is beyond that; then only a backup helps. */
export function repairStoreFile(file: string, accept_loss: boolean): Repaired {
  checkHeader(file);
  if (!existsSync(file))
    throw new BackplaneError("request.invalid", `${file} is not there; there is nothing to repair.`);
  const kept = keepFiles(file, "before-repair", false);
  const connection = openConnection(file, "write");
  return withConnection(connection, () => {
    if (!accept_loss) checkCommits(connection, file, undefined);
    const { database } = connection;
    const before = findDamage(database).structure;
    if (before.length > 0) {
      database.exec("reindex");
      const left = findDamage(database).structure;
      if (left.length > 0) {
        throw damagedStore(
          file,
          `${file} cannot be repaired: ${left.slice(0, 3).join("; ")}. Its files are kept in ${kept}.`,
        );
      }
    }
    const rows = setDamagedRowsAside(database, join(kept, "damaged-rows.jsonl"));
    const counted = readCount(file);
    const state = readState(connection) ?? { count: 0, at: 0 };
    const lost_commits = typeof counted === "object" ? Math.max(0, counted.count - state.count) : 0;
    if (lost_commits > 0 || counted === "damaged") resetCount(file, state, null);
    return { kept, lost_commits, rows, indexes: before };
  });
}

/** Into a folder of their own beside the store. */
function keepFiles(file: string, why: string, move: boolean): string {
  const kept = `${file}.${why}-${stamp()}`;
  mkdirSync(kept, { mode: 0o700 });
  for (const part of ["", "-wal", "-shm", ".commits"]) {
    if (!existsSync(`${file}${part}`)) continue;
    const to = join(kept, `${basename(file)}${part}`);
    if (move) renameSync(`${file}${part}`, to);
    else copyFileSync(`${file}${part}`, to);
  }
  writeFileSync(join(kept, "README"), `The files of ${file} as they were (${why}).\n`);
  return kept;
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function sync(path: string): void {
  const handle = openSync(path, "r");
  fsyncSync(handle);
  closeSync(handle);
}
