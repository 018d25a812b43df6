/**
 * The entries that a compaction must not lose: pinned entries, system messages and open tasks. The host finds them
 * itself and compares the seed with them, because a compactor is a plugin and can leave out anything.
 *
 * An open task is a user's message that no answer has followed, or a tool call without a result. Open messages are
 * retained up to half of the target, newest first, so that a chain of unanswered messages can still be compacted.
 */

import { BackplaneError, type Block, canonicalJson, type Entry } from "@backplane/contract";
import type { NewEntry } from "@backplane/ports";
import { blockOf, entryOfBlock } from "@backplane/session";

export interface RetentionPolicy {
  retain_system: boolean;
  retain_open_tasks: boolean;
}

export interface RetainedEntries {
  /** In the order of the chain, with the calls of pinned results and the results of pinned calls. */
  pinned: readonly Entry[];
  system: readonly Entry[];
  open: readonly Entry[];
}

export function findRetained(
  entries: readonly Entry[],
  pins: ReadonlySet<number>,
  policy: RetentionPolicy,
  target_tokens: number,
): RetainedEntries {
  const pinned = new Set(entries.filter((entry) => pins.has(originalId(entry))));
  for (const [call, result] of pairCalls(entries)) {
    if (result === null || (!pinned.has(call) && !pinned.has(result))) continue;
    pinned.add(call).add(result);
  }
  return {
    pinned: entries.filter((entry) => pinned.has(entry)),
    system: policy.retain_system ? entries.filter((entry) => isMessageOf(entry, "system")) : [],
    open: policy.retain_open_tasks ? openTasks(entries, target_tokens / 2) : [],
  };
}

/** A copy names its original, even after several compactions. */
export function originalId({ id, meta }: Entry): number {
  return typeof meta.copy_of === "number" ? meta.copy_of : id;
}

function openTasks(entries: readonly Entry[], most_tokens: number): Entry[] {
  const answered = entries.findLastIndex((entry) => isMessageOf(entry, "assistant"));
  const since = entries.slice(answered + 1);
  const open = new Set<Entry>();
  let chars = 0;
  for (const entry of since.toReversed()) {
    // A block that a compactor condensed is history, not a request.
    if (!isMessageOf(entry, "user") || entry.meta.from_entries !== undefined) continue;
    chars += JSON.stringify(entry.payload.content ?? "").length;
    if (open.size > 0 && chars / 4 > most_tokens) break;
    open.add(entry);
  }
  for (const [call, result] of pairCalls(since)) if (result === null) open.add(call);
  return since.filter((entry) => open.has(entry));
}

/** Some models number their calls from zero in every answer, so a result belongs to the latest call of its id. */
function pairCalls(entries: readonly Entry[]): [call: Entry, result: Entry | null][] {
  const pairs: [Entry, Entry | null][] = [];
  const latest = new Map<unknown, [Entry, Entry | null]>();
  for (const entry of entries) {
    if (entry.kind === "tool_call") {
      const pair: [Entry, Entry | null] = [entry, null];
      pairs.push(pair);
      latest.set(entry.payload.id, pair);
    } else {
      const block = entry.kind === "tool_result" || entry.kind === "event" ? blockOf(entry) : null;
      const pair = block?.kind === "tool_result" ? latest.get(block.tool_call_id) : undefined;
      if (pair !== undefined) pair[1] = entry;
    }
  }
  return pairs;
}

/** Turns the blocks of a compactor into entries and throws `malformed_response` if they break a rule. */
export function buildSeed(
  blocks: readonly Block[],
  entries: readonly Entry[],
  retained: RetainedEntries,
): NewEntry[] {
  const source = new SourceBlocks(entries);
  const seed: NewEntry[] = [];
  const calls = new Set<string>();
  const kept = new Set<Entry>();
  let previous: Entry | null = null;
  for (const [index, block] of blocks.entries()) {
    requireOwnSources(block, index, source);
    if (block.kind === "tool_call") calls.add(block.tool_call_id!);
    if (block.kind === "tool_result" && !calls.has(block.tool_call_id!))
      refuse(`seed_blocks/${index} is the result of a call that is not before it`);
    const original = source.take(block);
    if (original === null) {
      seed.push(toNewEntry(block, entries.at(-1)?.date ?? ""));
    } else {
      kept.add(original);
      seed.push(...source.between(previous, original).map(copyOf), copyOf(original));
    }
    previous = original;
  }
  const all: [what: string, entries: readonly Entry[]][] = [
    ["is pinned", retained.pinned],
    ["is a system message", retained.system],
    ["is an open task", retained.open],
  ];
  for (const [what, wanted] of all) {
    const lost = wanted.find((entry) => !kept.has(entry));
    if (lost !== undefined) refuse(`entry ${lost.id} ${what} and is missing from seed_blocks`);
  }
  return seed;
}

/** The copy names its original, so that a resumed turn can tell its own entries from earlier ones. */
export function copyOf({ id, kind, payload, meta, date }: Entry): NewEntry {
  return { kind, payload, meta: { copy_of: id, ...meta }, date };
}

/** The date is that of the newest source, because clients treat entries before the anchor's date as repeated ones. */
function toNewEntry(block: Block, date: string): NewEntry {
  const entry = entryOfBlock(block, date);
  const { from_entries } = block;
  return from_entries === undefined ? entry : { ...entry, meta: { ...entry.meta, from_entries } };
}

/** A block may name entries of the source and what those were condensed from. */
function requireOwnSources({ from_entries = [] }: Block, index: number, source: SourceBlocks): void {
  const foreign = from_entries.find((id) => !source.ids.has(id));
  if (foreign !== undefined)
    refuse(`seed_blocks/${index}/from_entries names entry ${foreign}, which is not in the source`);
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
      const known = this.#unused.get(signatureOf(block));
      if (known === undefined) this.#unused.set(signatureOf(block), [entry]);
      else known.push(entry);
    }
  }

  /** The entry that the block repeats, each entry once. Prefers the one that the block names. */
  take(block: Block): Entry | null {
    const same = this.#unused.get(signatureOf(block)) ?? [];
    const named = same.findIndex(({ id }) => id === block.entry_id);
    return same.splice(Math.max(named, 0), 1)[0] ?? null;
  }

  /** Entries without a block, such as model responses, stay between the two entries that they were between. */
  between(before: Entry | null, after: Entry): readonly Entry[] {
    if (before === null) return [];
    const from = this.#index.get(before)! + 1;
    const to = this.#index.get(after)!;
    const inner = this.#entries.slice(from, to);
    return from < to && inner.every((entry) => blockOf(entry) === null) ? inner : [];
  }
}

function signatureOf({ entry_id: _id, from_entries: _from, ...rest }: Block): string {
  return canonicalJson(rest);
}

function isMessageOf({ kind, payload }: Entry, role: string): boolean {
  return kind === "message" && payload.role === role;
}

function refuse(rule: string): never {
  throw new BackplaneError("malformed_response", `The compactor's response is invalid: ${rule}.`);
}
