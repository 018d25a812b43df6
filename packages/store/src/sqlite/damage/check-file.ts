/** Finds damage in a SQLite store: in its header, its structure, its schema and the checksums of its rows. */
import { closeSync, openSync, readSync, statSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { readCommitFile } from "../connection/commit-counter.ts";
import {
  type DamagedRow,
  findDamagedRows,
  STATE_TABLE,
  schemaChecksum,
} from "../connection/row-checksums.ts";
import { damagedStoreError } from "./restore-advice.ts";

export interface FileDamage {
  /** The file as a whole cannot be trusted: results may be incomplete. */
  structure: string[];
  /** Single rows. Reading one of them is an error; all others are intact. */
  rows: DamagedRow[];
}

const MAGIC = "SQLite format 3\0";
const HEADER_BYTES = 100;
const MAX_FINDINGS = 20;

/** Header fields that are the same in every store. */
const FIXED: readonly [offset: number, bytes: readonly number[], name: string][] = [
  [20, [0], "the reserved space of pages"],
  [21, [64, 32, 32], "the payload fractions"],
  [44, [0, 0, 0], "the schema format"],
  [52, [0, 0, 0, 0], "the vacuum mode"],
  [56, [0, 0, 0], "the text encoding"],
  [60, [0, 0, 0, 0], "the user version"],
  [64, [0, 0, 0, 0], "the vacuum mode"],
  [68, [0, 0, 0, 0], "the application id"],
  [72, Array.from({ length: 20 }, () => 0), "the reserved bytes"],
];

/** The schema format and the text encoding are 0 until the first checkpoint. */
const FORMAT = [47, [4], "the schema format"] as const;
const ENCODING = [59, [1], "the text encoding"] as const;

/**
 * Call this before SQLite opens the file, because SQLite accepts an empty file as a new store. Throws `store.damaged`.
 */
export function checkHeader(file: string): void {
  const header = readHeader(file);
  const counted = readCommitFile(file);
  const was_used = typeof counted === "object" && counted.count > 0;
  if (header === null || header.length === 0) {
    if (!was_used) return;
    const state = header === null ? "is missing" : "is empty";
    throw damagedStoreError(
      file,
      `${file} ${state}, but ${counted.count} commits were acknowledged in it. All of them are lost.`,
      {
        lost: counted.count,
      },
    );
  }
  if (header.length < HEADER_BYTES || header.toString("latin1", 0, 16) !== MAGIC) {
    throw damagedStoreError(
      file,
      `${file} is not a SQLite database: its header is damaged or it was overwritten.`,
    );
  }
  // A file without a counted commit can be new. A new file has a different version and contains no data.
  if (!was_used) return;
  // Version 2 is a file with a write-ahead log. Version 1 has none, for example after a backup was restored.
  const version = header[18]!;
  if ((version !== 1 && version !== 2) || header[19] !== version) {
    throw damagedStoreError(
      file,
      `The header of ${file} is damaged: its format version (byte 18) is invalid.`,
    );
  }
  const unset = header[47] === 0 && header[59] === 0;
  const invalid_field =
    FIXED.find(([offset, bytes]) => bytes.some((byte, n) => header[offset + n] !== byte)) ??
    (unset || header[47] === 4 ? undefined : FORMAT) ??
    (unset || header[59] === 1 ? undefined : ENCODING);
  if (invalid_field !== undefined) {
    throw damagedStoreError(
      file,
      `The header of ${file} is damaged: ${invalid_field[2]} (byte ${invalid_field[0]}) is invalid.`,
    );
  }
}

function readHeader(file: string): Buffer | null {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return null;
  const fd = openSync(file, "r");
  try {
    const header = Buffer.alloc(Math.min(HEADER_BYTES, stat.size));
    readSync(fd, header, 0, header.length, 0);
    return header;
  } finally {
    closeSync(fd);
  }
}

export const CHECK_PARTS = ["structure", "rows"] as const;
/** Pages, indexes and definitions, or the checksum of each row. */
export type CheckPart = (typeof CHECK_PARTS)[number];

/** Each part reads the whole file; the connection needs the functions of row-checksums.ts. */
export function findDamage(database: DatabaseSync, parts: readonly CheckPart[] = CHECK_PARTS): FileDamage {
  const structure: string[] = [];
  let rows: DamagedRow[] = [];
  try {
    const check_structure = parts.includes("structure");
    if (check_structure) structure.push(...findIntegrityErrors(database));
    // A file without the state table has no checksums to verify.
    if (!hasState(database)) return { structure, rows };
    if (check_structure) structure.push(...findSchemaErrors(database), ...findSequenceErrors(database));
    if (parts.includes("rows")) rows = findDamagedRows(database, MAX_FINDINGS);
  } catch (error) {
    structure.push(`SQLite reports "${(error as Error).message}"`);
  }
  return { structure: structure.slice(0, MAX_FINDINGS), rows };
}

function findIntegrityErrors(database: DatabaseSync): string[] {
  const rows = database.prepare(`pragma integrity_check(${MAX_FINDINGS})`).all() as {
    integrity_check: string;
  }[];
  return rows.map((row) => row.integrity_check).filter((text) => text !== "ok");
}

function hasState(database: DatabaseSync): boolean {
  const find = database.prepare("select 1 from sqlite_schema where type = 'table' and name = ?");
  return find.get(STATE_TABLE) !== undefined;
}

/** Nothing else would detect a changed default or a missing index. */
function findSchemaErrors(database: DatabaseSync): string[] {
  const row = database.prepare(`select schema_sum from ${STATE_TABLE} where one = 1`).get() as
    | { schema_sum: number }
    | undefined;
  if (row === undefined) return [`the table ${STATE_TABLE} has no row`];
  return row.schema_sum === schemaChecksum(database)
    ? []
    : ["the definitions of tables and indexes have changed"];
}

/**
 * With a sequence that is too low, positions would be assigned twice, and readers that are further ahead would skip the
 * new rows. Only the numbered tables have a sequence.
 */
function findSequenceErrors(database: DatabaseSync): string[] {
  const [sequences, cursor] = [
    database.prepare("select name, seq from sqlite_sequence").all() as { name: string; seq: number }[],
    database.prepare("select max(seq) as seq from cursors").get() as { seq: number | null },
  ];
  const outbox = sequences.find(({ name }) => name === "outbox")?.seq ?? 0;
  const unknown = sequences.some(({ name }) => name !== "outbox" && name !== "jobs");
  return unknown || outbox < (cursor.seq ?? 0) ? ["the numbering of rows (sqlite_sequence) is wrong"] : [];
}
