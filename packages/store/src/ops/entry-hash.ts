/**
 * The tape is a chain of hashes. Each entry's covers the one before it; the first of a chain covers where the chain comes
 * from, so a changed byte anywhere behind an entry, or a changed parent, is found.
 */
import { hash as digest } from "node:crypto";

/** kind, date, payload, meta */
export type EntryRow = [kind: string, date: string, payload: string, meta: string];

export function entryHash(previous: string, chain_id: string, id: number, entry: EntryRow): string {
  const [kind, date, payload, meta] = entry;
  return digest("sha256", `${previous}\n${JSON.stringify([chain_id, id, kind, date, payload, meta])}`);
}

/** What a chain's first entry is chained to; `inherited` is the hash of the last entry that it shows of others. */
export function originHash(
  inherited: string,
  chain_id: string,
  parent_id: string | null,
  fork_entry: number,
): string {
  return digest("sha256", `${inherited}\n${JSON.stringify([chain_id, parent_id, fork_entry])}`);
}
