/** Entries with something else in one transaction: another write's, or the key that they were asked for under. */

import { type AppendedRows, appendEntries, type KeyColumns } from "./entries.ts";
import type { EntryRow } from "./entry-hash.ts";
import { type HoldColumns, requireHeld } from "./holds.ts";
import { type TakeKey, takeKeyFor } from "./idempotency.ts";
import type { Dialect, Op } from "./op.ts";

export interface TapeRows {
  key: KeyColumns;
  entries: EntryRow[];
  /** Null: not written by a turn. */
  hold: HoldColumns | null;
}

export function* appendOnce(
  p: TapeRows & { chain_id: string | null; once: TakeKey },
  dialect: Dialect,
): Op<AppendedRows> {
  if (p.hold !== null) yield* requireHeld(p.hold, dialect);
  const written = yield* appendEntries(p, dialect);
  yield* takeKeyFor(p.once, { entry_id: written.last_id }, dialect);
  return written;
}

/** Entries of a turn, refused with `run.taken_over` once another gateway has it. */
export function* appendHeld(p: TapeRows & { hold: HoldColumns }, dialect: Dialect): Op<AppendedRows> {
  yield* requireHeld(p.hold, dialect);
  return yield* appendEntries({ ...p, chain_id: null }, dialect);
}

/** Always on the session's head. */
export function* writeTape(tape: TapeRows | null, dialect: Dialect): Op<AppendedRows | null> {
  if (tape === null) return null;
  return yield* appendEntries({ key: tape.key, chain_id: null, entries: tape.entries }, dialect);
}
