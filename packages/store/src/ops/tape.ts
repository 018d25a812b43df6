/** Entries that ride in another write's transaction, always on the session's head. */
import type { Dialect, Op } from "../op.ts";
import { type AppendedRows, appendEntries, type EntryRow, type KeyColumns } from "./entries.ts";

export interface TapeRows {
  key: KeyColumns;
  entries: EntryRow[];
}

export function* writeTape(tape: TapeRows | null, dialect: Dialect): Op<AppendedRows | null> {
  if (tape === null) return null;
  return yield* appendEntries({ key: tape.key, chain_id: null, entries: tape.entries }, dialect);
}
