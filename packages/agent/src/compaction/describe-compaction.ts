/**
 * Reads a compaction from the compacted chain and its parent: its record, and its effect on each entry
 * (compactor.loss).
 */

import {
  BackplaneError,
  type Chain,
  type CompactedEntry,
  type Compaction,
  isObject,
  type JsonObject,
} from "@backplane/contract";
import type { Scope } from "@backplane/ports";
import { classifyEntries, type Sessions } from "@backplane/session";

type SessionReader = Pick<Sessions, "readEntries" | "readSinceAnchor">;

export async function describeCompaction(sessions: SessionReader, chain: Chain): Promise<Compaction> {
  return readRecord(chain, await readState(sessions, chain));
}

function readRecord(chain: Chain, state: JsonObject): Compaction {
  const from = (state.source ?? {}) as { chain_id?: string; last_entry_id?: number };
  const { summary, tokens_before, tokens_after, compactor, failed_compactors, diagnostics, loss } = state;
  return {
    chain,
    summary: typeof summary === "string" ? summary : "",
    source: {
      chain_id: from.chain_id ?? chain.parent_chain_id ?? "",
      last_entry_id: from.last_entry_id ?? chain.fork_entry_id,
    },
    tokens_before: typeof tokens_before === "number" ? tokens_before : null,
    tokens_after: typeof tokens_after === "number" ? tokens_after : null,
    // The gateway itself wrote the anchor, so its fields have these types.
    compactor: (compactor ?? null) as Compaction["compactor"],
    failed_compactors: (failed_compactors ?? []) as Compaction["failed_compactors"],
    diagnostics: isObject(diagnostics) ? diagnostics : null,
    loss: (loss ?? null) as unknown as Compaction["loss"],
  };
}

export async function readCompactedEntries(sessions: SessionReader, chain: Chain): Promise<CompactedEntry[]> {
  const state = await readState(sessions, chain);
  const { source } = readRecord(chain, state);
  const { chain_id, last_entry_id } = source;
  const scope = scopeOf(chain);
  const first = typeof state.first_entry_id === "number" ? state.first_entry_id : null;
  const before =
    first === null
      ? await sessions.readSinceAnchor(scope, chain_id)
      : await sessions.readEntries(scope, chain_id, first - 1, chain.last_entry_id);
  const after = await sessions.readEntries(scope, chain.id, chain.fork_entry_id, chain.last_entry_id);
  return classifyEntries(
    // The source chain may have grown after an undo.
    before.filter(({ id }) => id <= last_entry_id),
    after.slice(1),
  );
}

/** The first entry of a compacted chain is an anchor with the summary and the record. */
async function readState(sessions: SessionReader, chain: Chain): Promise<JsonObject> {
  if (chain.origin !== "compaction")
    throw new BackplaneError("request.invalid", `Chain ${chain.id} was not written by a compaction.`);
  const [anchor] = await sessions.readEntries(scopeOf(chain), chain.id, chain.fork_entry_id, 1);
  return anchor?.kind === "anchor" && isObject(anchor.payload.state) ? anchor.payload.state : {};
}

function scopeOf({ org_id, project_id }: Chain): Scope {
  return { org_id, project_id };
}
