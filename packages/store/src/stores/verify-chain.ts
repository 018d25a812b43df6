import type { Scope } from "@backplane/kernel/ports";
import type { Backend } from "../backend.ts";
import { entryHash, originHash } from "../ops/entries.ts";
import { lineOf, readStretch } from "../ops/session-reads.ts";
import { projectColumn } from "./scope.ts";

const VERIFY_STEP = 1_000;

/**
 * From the oldest ancestor on, as the hashes were made: a chain starts from the last entry that it shows of
 * others, and the newest one's row names its last entry, so a cut-off end is found like a changed byte.
 */
export async function verifyChain(
  backend: Backend,
  { org_id, project_id }: Scope,
  chain_id: string,
): Promise<{ chain_id: string; entry_id: number } | null> {
  const line = await backend.read(() => lineOf(org_id, projectColumn(project_id), chain_id, 0));
  let shown = "";
  let hash = "";
  let last = 0;
  for (const part of line) {
    hash = originHash(shown, part.chain_id, part.parent_id, part.fork_entry);
    let at = part.lower;
    while (at < part.upper) {
      const rows = await backend.read(() => readStretch(part.chain_id, at, part.upper, VERIFY_STEP));
      if (rows.length === 0) break;
      for (const row of rows) {
        at = row.id as number;
        const { kind, date, payload, meta } = row as Record<string, string>;
        hash = entryHash(hash, part.chain_id, at, [kind!, date!, payload!, meta!]);
        if (row.hash !== hash) return { chain_id: part.chain_id, entry_id: at };
        shown = hash;
      }
    }
    last = Math.max(last, at);
  }
  return line.at(-1)?.hash === hash ? null : { chain_id, entry_id: last };
}
