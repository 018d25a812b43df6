/**
 * The hashes of a tape. The hash of an entry covers the hash of the entry before it, and the first hash of a chain covers
 * the chain's origin. A changed byte in any earlier entry, or a changed parent, is therefore detected.
 */
import { hash as digest } from "node:crypto";

export type EntryRow = [kind: string, date: string, payload: string, meta: string];

export function entryHash(previous: string, chain_id: string, id: number, entry: EntryRow): string {
  const [kind, date, payload, meta] = entry;
  return digest("sha256", `${previous}\n${JSON.stringify([chain_id, id, kind, date, payload, meta])}`);
}

/**
 * The hash that precedes a chain's first entry. `inherited` is the hash of the last entry that is visible from its
 * ancestors.
 */
export function originHash(
  inherited: string,
  chain_id: string,
  parent_id: string | null,
  fork_entry: number,
): string {
  return digest("sha256", `${inherited}\n${JSON.stringify([chain_id, parent_id, fork_entry])}`);
}
