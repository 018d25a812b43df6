/** Which compactions are in effect. An undone one stays on the tape, with the messages that followed it. */
import type { Chain } from "@backplane/contract";
import type { MarkerItem, TranscriptItem } from "./build-transcript.ts";

export interface CompactionState {
  chain_id: string;
  in_effect: boolean;
  /** Only the compaction that the session continues on can be undone. */
  undoable: boolean;
  /** The last entry that was written after the compaction. */
  last_entry_id: number;
}

/** Keyed by the marker's entry. A marker whose chain is not in `chains` was inherited from the parent session. */
export function compactionStates(
  items: readonly TranscriptItem[],
  chains: readonly Chain[],
  head_chain_id: string,
): Map<number, CompactionState> {
  const by_id = new Map(chains.map((chain) => [chain.id, chain]));
  const current = new Set<string>();
  for (let chain = by_id.get(head_chain_id); chain !== undefined && !current.has(chain.id); ) {
    current.add(chain.id);
    chain = by_id.get(chain.parent_chain_id ?? "");
  }
  const compacted = chains.filter(({ origin }) => origin === "compaction");
  const states = new Map<number, CompactionState>();
  for (const item of items) {
    if (item.type !== "marker" || item.kind !== "compaction") continue;
    const chain = findChain(item, compacted);
    if (chain === undefined) continue;
    const { id, last_entry_id } = chain;
    states.set(item.entry, {
      chain_id: id,
      in_effect: current.has(id),
      undoable: id === head_chain_id,
      last_entry_id,
    });
  }
  return states;
}

/** A chain is created together with its marker, so of several candidates the nearest in time is the right one. */
function findChain({ entry, at }: MarkerItem, compacted: readonly Chain[]): Chain | undefined {
  const distance = ({ created_at }: Chain) => Math.abs(Date.parse(created_at) - Date.parse(at));
  return compacted
    .filter(({ fork_entry_id, last_entry_id }) => fork_entry_id < entry && entry <= last_entry_id)
    .toSorted((a, b) => distance(a) - distance(b))[0];
}

/** Whether the model no longer sees an entry, because the entry followed a compaction that was undone. */
export function isSetAside(entry: number, states: ReadonlyMap<number, CompactionState>): boolean {
  for (const [marker, { in_effect, last_entry_id }] of states)
    if (!in_effect && entry >= marker && entry <= last_entry_id) return true;
  return false;
}
