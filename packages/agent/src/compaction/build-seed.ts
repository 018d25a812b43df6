/**
 * Checks the seed of a compactor: the host compares it with the entries that a compaction must not lose, because a
 * compactor is a plugin and can leave out anything.
 */

import { BackplaneError, type Block, canonicalJson, type Entry } from "@backplane/contract";
import type { NewEntry } from "@backplane/ports";
import { blockOf, copyEntry, entryFromBlock, type RetainedEntries } from "@backplane/session";

/** Turns the blocks of a compactor into entries and throws `malformed_response` if they break a rule. */
export function buildSeed(
  blocks: readonly Block[],
  entries: readonly Entry[],
  retained: RetainedEntries,
): NewEntry[] {
  const source = new SourceBlocks(entries);
  const seed: NewEntry[] = [];
  const calls = new Set<string>();
  const kept_entries = new Set<Entry>();
  let previous: Entry | null = null;
  for (const [index, block] of blocks.entries()) {
    requireOwnSources(block, index, source);
    if (block.kind === "tool_call") calls.add(block.tool_call_id!);
    if (block.kind === "tool_result" && !calls.has(block.tool_call_id!))
      reject(`seed_blocks/${index} is the result of a call that does not precede it`);
    const original = source.takeOriginal(block);
    if (original === null) {
      seed.push(toNewEntry(block, entries.at(-1)?.date ?? ""));
    } else {
      kept_entries.add(original);
      seed.push(...source.between(previous, original).map(copyEntry), copyEntry(original));
    }
    previous = original;
  }
  const required: [reason: string, entries: readonly Entry[]][] = [
    ["is pinned", retained.pinned],
    ["is a system message", retained.system],
    ["is an open task", retained.open],
  ];
  for (const [reason, wanted] of required) {
    const lost = wanted.find((entry) => !kept_entries.has(entry));
    if (lost !== undefined) reject(`entry ${lost.id} ${reason} and is missing from seed_blocks`);
  }
  return seed;
}

/**
 * The entry gets the date of the newest source entry. It is then older than the anchor, like the copies, and clients
 * treat entries that are older than their anchor as repeats.
 */
function toNewEntry(block: Block, date: string): NewEntry {
  const entry = entryFromBlock(block, date);
  const { from_entries } = block;
  return from_entries === undefined ? entry : { ...entry, meta: { ...entry.meta, from_entries } };
}

/** A block may refer to entries of the source and to the entries from which those were condensed. */
function requireOwnSources({ from_entries = [] }: Block, index: number, source: SourceBlocks): void {
  const foreign = from_entries.find((id) => !source.ids.has(id));
  if (foreign !== undefined)
    reject(`seed_blocks/${index}/from_entries contains entry ${foreign}, which is not in the source`);
}

class SourceBlocks {
  readonly ids = new Set<number>();
  readonly #entries: readonly Entry[];
  readonly #unused = new Map<string, Entry[]>();
  readonly #index = new Map<Entry, number>();

  constructor(entries: readonly Entry[]) {
    this.#entries = entries;
    for (const [index, entry] of entries.entries()) {
      const block = blockOf(entry);
      this.#index.set(entry, index);
      if (block === null) continue;
      this.ids.add(entry.id);
      for (const id of block.from_entries ?? []) this.ids.add(id);
      if (entry.kind === "anchor") continue;
      const same_signature = this.#unused.get(signatureOf(block));
      if (same_signature === undefined) this.#unused.set(signatureOf(block), [entry]);
      else same_signature.push(entry);
    }
  }

  /** Returns the entry that the block repeats, each entry at most once. Prefers the entry with the id in the block. */
  takeOriginal(block: Block): Entry | null {
    const same = this.#unused.get(signatureOf(block)) ?? [];
    const index = same.findIndex(({ id }) => id === block.entry_id);
    return same.splice(Math.max(index, 0), 1)[0] ?? null;
  }

  /**
   * Returns the entries between two kept entries, such as model responses, if none of them has a block. They keep their
   * position in the seed.
   */
  between(before: Entry | null, after: Entry): readonly Entry[] {
    if (before === null) return [];
    const from = this.#index.get(before)! + 1;
    const to = this.#index.get(after)!;
    const skipped = this.#entries.slice(from, to);
    return from < to && skipped.every((entry) => blockOf(entry) === null) ? skipped : [];
  }
}

function signatureOf({ entry_id: _id, from_entries: _from, ...rest }: Block): string {
  return canonicalJson(rest);
}

function reject(problem: string): never {
  throw new BackplaneError("malformed_response", `The compactor's response is invalid: ${problem}.`);
}
