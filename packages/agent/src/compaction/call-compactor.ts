/** Calls one bound compactor through the door, like every other call, and checks its seed against the source. */

import {
  BackplaneError,
  type Block,
  definedFields,
  type Entry,
  isErrorCode,
  type Json,
  type JsonObject,
  type Session,
  type UsedCompactor,
} from "@backplane/contract";
import { type Door, invoke, stopCall } from "@backplane/door";
import type { Caller, ChangeCause, NewEntry } from "@backplane/ports";
import {
  blockOf,
  copyEntry,
  estimateCompacted,
  estimateTokens,
  projectContent,
  type RetainedEntries,
  type RetentionPolicy,
  restoreContent,
  selectRetained,
} from "@backplane/session";
import { buildSeed } from "./build-seed.ts";
import type { CompactorCandidate } from "./choose-compactor.ts";

/** The input of a compactor, and of the summary by the model. */
export interface CompactorInput {
  session: Session;
  /** The context of the session, with pinned entries that an earlier compaction had dropped. */
  entries: readonly Entry[];
  retained: RetainedEntries;
  target_tokens: number;
  target_model: string;
  policy: RetentionPolicy;
}

export interface CompactionResult {
  summary: string;
  seed: readonly NewEntry[];
  /** Null for a summary that the model wrote. */
  compactor: UsedCompactor | null;
  diagnostics: JsonObject | null;
}

/** The caller's rights, and why the compactor is called. */
export interface CompactorCaller {
  caller: Caller;
  /** Identifies the turn and the trace, if any. */
  cause: ChangeCause;
  signal: AbortSignal;
}

const MAX_DIAGNOSTICS_CHARS = 16_384;

export async function callCompactor(
  door: Door,
  { bound, compactor }: CompactorCandidate,
  input: CompactorInput,
  { caller, cause, signal }: CompactorCaller,
): Promise<CompactionResult> {
  const { session, entries, retained } = input;
  const { binding } = bound;
  // The host itself keeps the pins if the compactor does not support them, so they reduce its target.
  const pins = compactor.supports_pinned_items ? [] : retained.pinned;
  const { target_tokens } = input;
  const max_input_tokens = Math.max(target_tokens - estimateTokens(pins), computeReserve(target_tokens));
  const body = {
    binding_id: binding.binding_id,
    input: buildRequest(input, compactor.supports_pinned_items, max_input_tokens),
    session_id: session.id,
    chain_id: session.head_chain_id,
    ...definedFields({ run_id: cause.run_id, trace_id: cause.trace_id }),
  };
  const ticket = await invoke(door, { caller, body });
  const stop = () => {
    const live = door.live.get(ticket.id);
    if (live !== undefined) stopCall(door, live, "user");
  };
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  const { status, result, error } = await ticket.settled;
  signal.removeEventListener("abort", stop);
  if (status !== "succeeded") {
    const code = error !== null && isErrorCode(error.code) ? error.code : "loop.failed";
    throw new BackplaneError(code, `The compactor failed: ${error?.message ?? status}`);
  }
  // The door has already checked the shape of the result (accept.ts).
  const { seed_blocks = [], summary, diagnostics } = result as unknown as CompactorAnswer;
  const blocks = seed_blocks.map((block) =>
    restoreContent({ ...block, content: block.content ?? [] }, entries),
  );
  const seed = buildSeed(blocks, entries, { ...retained, pinned: exclude(retained.pinned, pins) });
  return {
    summary: summary?.text ?? "",
    seed: [...findMissingPins(seed, pins), ...seed],
    compactor: {
      binding_id: binding.binding_id,
      export_id: binding.export_id,
      package_id: binding.package_id,
      package_version: binding.package_version,
      invocation_id: ticket.id,
    },
    diagnostics: limitDiagnostics(diagnostics),
  };
}

/**
 * Rejects a response that exceeds the target. The retained entries may use the whole target or more, because the
 * compactor has to keep them; half of the target is always available for the entries that it chooses itself.
 */
export function requireWithinTarget(
  compacted: Pick<CompactionResult, "summary" | "seed">,
  { entries, retained, target_tokens }: CompactorInput,
): void {
  const required = estimateTokens(selectRetained(entries, retained));
  const max = Math.max(target_tokens, required + computeReserve(target_tokens));
  const tokens = estimateCompacted(compacted);
  if (tokens <= max) return;
  throw new BackplaneError(
    "malformed_response",
    `The compactor's response is invalid: summary and seed_blocks have about ${tokens} tokens; at most ${max} are allowed.`,
    { fix: "Request a larger target (--tokens, target.max_input_tokens) or another compactor." },
  );
}

function computeReserve(target_tokens: number): number {
  return Math.floor(target_tokens / 2);
}

interface CompactorAnswer {
  seed_blocks?: (Omit<Block, "content"> & Partial<Pick<Block, "content">>)[];
  summary?: { text: string };
  diagnostics?: JsonObject;
}

function buildRequest(
  { session, entries, retained, target_model, policy }: CompactorInput,
  with_pins: boolean,
  max_input_tokens: number,
): JsonObject {
  const toBlocks = (list: readonly Entry[]) =>
    list.flatMap((entry) => blockOf(entry) ?? []).map(projectContent) as unknown as Json;
  return {
    source: {
      chain_id: session.head_chain_id,
      projection: {
        transport: "inline",
        blocks: toBlocks(entries),
        pinned_items: with_pins ? toBlocks(retained.pinned) : [],
        token_estimate: estimateTokens(entries),
      },
    },
    target: {
      max_input_tokens,
      ...(target_model === "" ? {} : { target_model }),
    },
    policy: { ...policy },
  };
}

function exclude<T>(all: readonly T[], removed: readonly T[]): readonly T[] {
  return removed.length === 0 ? all : all.filter((item) => !removed.includes(item));
}

/** A compactor without support for pins may have kept some of them as recent context. */
function findMissingPins(seed: readonly NewEntry[], pins: RetainedEntries["pinned"]): NewEntry[] {
  const kept_ids = new Set(seed.map(({ meta }) => meta.copy_of));
  return pins.map(copyEntry).filter(({ meta }) => !kept_ids.has(meta.copy_of));
}

/** Diagnostics are for people; a compactor must not fill the tape with them. */
function limitDiagnostics(diagnostics: JsonObject | undefined): JsonObject | null {
  if (diagnostics === undefined) return null;
  const chars = JSON.stringify(diagnostics).length;
  return chars <= MAX_DIAGNOSTICS_CHARS ? diagnostics : { omitted_characters: chars };
}
