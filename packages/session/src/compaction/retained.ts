/**
 * The entries that a compaction must not lose: pinned entries, system messages and open tasks.
 *
 * Open tasks follow the last answer: users' messages, and tool calls without a result. Open messages are retained up to
 * half of the target, newest first, but at least the newest one, so that a chain of unanswered messages can still be
 * compacted.
 */

import type { Entry } from "@backplane/contract";
import type { NewEntry } from "@backplane/ports";
import { blockOf } from "../sessions/blocks.ts";
import { estimateTokens } from "./tokens.ts";

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
    open: policy.retain_open_tasks ? findOpenTasks(entries, target_tokens / 2) : [],
  };
}

/** The retained entries, each once, in the order of the chain. */
export function selectRetained(
  entries: readonly Entry[],
  { pinned, system, open }: RetainedEntries,
): Entry[] {
  const retained = new Set([...pinned, ...system, ...open]);
  return entries.filter((entry) => retained.has(entry));
}

/** A copy refers to its original, even after several compactions. */
export function originalId({ id, meta }: Entry): number {
  return typeof meta.copy_of === "number" ? meta.copy_of : id;
}

function findOpenTasks(entries: readonly Entry[], max_tokens: number): Entry[] {
  const last_answer = entries.findLastIndex((entry) => isMessageOf(entry, "assistant"));
  const unanswered = entries.slice(last_answer + 1);
  const open = new Set<Entry>();
  let tokens = 0;
  for (const entry of unanswered.toReversed()) {
    // A block that a compactor condensed is history, not a request.
    if (!isMessageOf(entry, "user") || entry.meta.from_entries !== undefined) continue;
    tokens += estimateTokens([entry]);
    if (open.size > 0 && tokens > max_tokens) break;
    open.add(entry);
  }
  for (const [call, result] of pairCalls(unanswered)) if (result === null) open.add(call);
  return unanswered.filter((entry) => open.has(entry));
}

/** Some models number their calls from zero in every answer, so a result belongs to the latest call with its id. */
function pairCalls(entries: readonly Entry[]): [call: Entry, result: Entry | null][] {
  const pairs: [Entry, Entry | null][] = [];
  const latest_by_id = new Map<unknown, [Entry, Entry | null]>();
  for (const entry of entries) {
    if (entry.kind === "tool_call") {
      const pair: [Entry, Entry | null] = [entry, null];
      pairs.push(pair);
      latest_by_id.set(entry.payload.id, pair);
    } else {
      const block = entry.kind === "tool_result" || entry.kind === "event" ? blockOf(entry) : null;
      const pair = block?.kind === "tool_result" ? latest_by_id.get(block.tool_call_id) : undefined;
      if (pair !== undefined) pair[1] = entry;
    }
  }
  return pairs;
}

/** The copy refers to its original, so that a resumed turn can tell its own entries from earlier ones. */
export function copyEntry({ id, kind, payload, meta, date }: Entry): NewEntry {
  return { kind, payload, meta: { copy_of: id, ...meta }, date };
}

function isMessageOf({ kind, payload }: Entry, role: string): boolean {
  return kind === "message" && payload.role === role;
}
