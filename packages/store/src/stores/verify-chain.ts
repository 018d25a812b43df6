import type { Scope } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { originHash } from "../ops/entry-hash.ts";
import { lineOf } from "../ops/session-reads.ts";
import { checkSpan, spansOf } from "../ops/spans.ts";
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
  const line = await backend.readUnchecked(() => lineOf(org_id, projectColumn(project_id), chain_id, 0));
  let shown = "";
  let hash = "";
  let last = 0;
  for (const part of line) {
    hash = originHash(shown, part.chain_id, part.parent_id, part.fork_entry);
    let at = part.lower;
    for (let from = at; from < part.upper; from += VERIFY_STEP) {
      const to = Math.min(from + VERIFY_STEP, part.upper);
      for (const row of await backend.readUnchecked(() => spansOf(part.chain_id, from, to))) {
        // A row that reaches over the edge of two windows is in both.
        if ((row.last_id as number) <= at) continue;
        const checked = checkSpan(part.chain_id, row, hash, part.upper);
        if ("broken" in checked) return { chain_id: part.chain_id, entry_id: checked.broken };
        hash = checked.hash;
        shown = hash;
        at = checked.last_id;
      }
    }
    last = Math.max(last, at);
  }
  return line.at(-1)?.hash === hash ? null : { chain_id, entry_id: last };
}
