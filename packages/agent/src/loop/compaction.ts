/**
 * Frees space in a full context (compact.auto). Older entries become a summary and recent ones stay, on a new
 * chain whose parent keeps everything. The bound compactor writes the summary; without one, the model of the
 * turn does. A failed compaction leaves the session unchanged.
 */

import {
  BackplaneError,
  type Block,
  type BusPayload,
  type Chain,
  COMPACTION_LIMITS,
  codeOf,
  definedFields,
  type Entry,
  isErrorCode,
  type Json,
  type JsonObject,
  KERNEL_SESSION,
  LOOP_LIMITS,
  toBackplaneError,
} from "@backplane/contract";
import { type Door, invoke } from "@backplane/door";
import {
  type Caller,
  type ChangeCause,
  causeOf,
  type Logger,
  type NewEntry,
  type RunHold,
  type SessionKey,
} from "@backplane/ports";
import {
  blockOf,
  type ChainCompaction,
  ContextBuilder,
  contextOf,
  entryOfBlock,
  type HydratedSession,
  type KernelPort,
  modelBridgeSession,
  type Persister,
  type Sessions,
} from "@backplane/session";
import type { ModelCalls } from "../models/call-model.ts";
import type { Histories } from "./history.ts";
import { causeOfTurn } from "./run-record.ts";
import type { Turn } from "./turn.ts";

export interface CompactionResult {
  summary: string;
  seed: readonly NewEntry[];
}

export interface CompactionDeps {
  port: KernelPort;
  models: ModelCalls;
  sessions: Sessions;
  persister: Persister;
  histories: Histories;
  log: Logger;
  /** Throws `harness.limit` if the caller belongs to a harness that may not compact (any more). */
  countCompaction(caller: Caller): Promise<void>;
  /** Returns the context window of the instance's model in tokens, and which model it is. */
  windowOf(
    org_id: string,
    provider: string | null,
  ): Promise<{ provider: string; model: string; window: number } | null>;
  /** Calls the compactor that is bound in the scope. Returns null when none is bound. `cause` names the turn, if any. */
  callCompactor(
    caller: Caller,
    source: HydratedSession,
    target_tokens: number,
    cause: ChangeCause,
  ): Promise<CompactionResult | null>;
}

const PROMPT =
  "Summarise the conversation so far for your own later use. Keep names, numbers, decisions, open questions, " +
  "file paths and everything that was promised. Leave out small talk. Answer with the summary alone.";

export class Compactions {
  readonly #deps: CompactionDeps;
  readonly #failed = new WeakSet<Turn>();

  constructor(deps: CompactionDeps) {
    this.#deps = deps;
  }

  /** Called before each model call of the turn. */
  async compactIfNeeded(turn: Turn, provider: string): Promise<void> {
    const { tokens } = turn.history;
    // Reading the window costs a configuration lookup, and most contexts are far below the smallest window.
    if (tokens < SMALLEST_WINDOW * COMPACTION_LIMITS.threshold || this.#failed.has(turn)) return;
    const model = await this.#deps.windowOf(turn.key.scope.org_id, provider);
    if (model === null || tokens < model.window * COMPACTION_LIMITS.threshold) return;
    try {
      await this.#deps.countCompaction(turn.caller);
      const cause = causeOfTurn(turn.caller, turn.run);
      const chain = await this.#run(turn.key, turn.caller, model, turn.signal, turn.hold, cause);
      turn.run.chain_id = chain.id;
      turn.history = await this.#deps.histories.open(turn.key);
    } catch (error) {
      if (turn.signal.aborted || codeOf(error) === "run.taken_over") throw error;
      this.#failed.add(turn);
    }
  }

  /** Compacts on request, whatever the size of the context. */
  async compact(key: SessionKey, caller: Caller): Promise<Chain> {
    const model = await this.#deps.windowOf(key.scope.org_id, null);
    if (model === null) throw new BackplaneError("llm.failed", "No provider instance is active.");
    const { tokens } = await this.#deps.histories.open(key);
    // The user asked for this compaction, so the window is lowered to the size of the conversation.
    const window = Math.min(model.window, Math.max(tokens, 1));
    await this.#deps.countCompaction(caller);
    const { signal } = new AbortController();
    return await this.#run(key, caller, { ...model, window }, signal, undefined, causeOf(caller));
  }

  async #run(
    key: SessionKey,
    caller: Caller,
    model: { provider: string; model: string; window: number },
    signal: AbortSignal,
    hold: RunHold | undefined,
    cause: ChangeCause,
  ): Promise<Chain> {
    const { log } = this.#deps;
    const target_session_id = key.session_id;
    let tokens_before = 0;
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#deps.persister.drain(key);
        const source = await this.#deps.sessions.hydrate(key);
        tokens_before = tokensOf(source.entries);
        if (attempt === 1)
          this.#publish(key, "session.compaction.started", { target_session_id, tokens_before });
        const compacted = await this.#summarize(caller, source, model, signal, cause);
        const chain = await this.#write(key, source, compacted, tokens_before, hold, cause);
        const tokens_after = (await this.#deps.histories.open(key)).tokens;
        this.#publish(key, "session.compaction.completed", {
          target_session_id,
          tokens_before,
          tokens_after,
        });
        return chain;
      } catch (error) {
        const final = FINAL_ERRORS.has(codeOf(error));
        const last = final || attempt >= COMPACTION_LIMITS.tries || signal.aborted;
        log.warn({ err: error, session_id: key.session_id, attempt }, "compaction failed");
        if (!last) continue;
        this.#publish(key, "session.compaction.failed", {
          target_session_id,
          error: toBackplaneError(error).message,
        });
        throw error;
      }
    }
  }

  async #summarize(
    caller: Caller,
    source: HydratedSession,
    { provider, model, window }: { provider: string; model: string; window: number },
    signal: AbortSignal,
    cause: ChangeCause,
  ): Promise<CompactionResult> {
    const target = Math.floor(window * COMPACTION_LIMITS.target);
    const compacted = await this.#deps.callCompactor(caller, source, target, cause);
    if (compacted !== null) return compacted;
    const { older, recent } = split(source.entries, target);
    const messages = [...contextOf(older), { role: "user", content: PROMPT }];
    const answer = await this.#deps.models.call(
      { provider, model, messages, tools: [], params: {} },
      {
        // A separate session keeps this model call away from the watchers and the tape of the conversation.
        to: { session_id: modelBridgeSession("compaction"), scope: caller.scope },
        signal,
        timeout_ms: LOOP_LIMITS.model_ms,
      },
    );
    const room = Math.max(MIN_SUMMARY_CHARS, (target - tokensOf(recent)) * 4);
    return { summary: answer.text.slice(0, room), seed: recent.map(copyOf) };
  }

  async #write(
    key: SessionKey,
    source: HydratedSession,
    { summary, seed }: CompactionResult,
    tokens_before: number,
    hold: RunHold | undefined,
    cause: ChangeCause,
  ): Promise<Chain> {
    const { sessions, histories, persister } = this.#deps;
    // The last entry of this chain is used, because after an undo the session also has later entries on the
    // abandoned chain.
    const last_entry_id = source.entries.at(-1)?.id ?? 0;
    const at = { chain_id: source.session.head_chain_id, last_entry_id };
    const tokens_after = Math.ceil(summary.length / 4) + tokensOf(seed.map((entry) => ({ id: 0, ...entry })));
    if (tokens_after >= tokens_before) {
      throw new BackplaneError(
        "request.invalid",
        "The conversation is too short for a compaction to save anything.",
      );
    }
    const compaction: ChainCompaction = { summary, source: at, tokens_before, tokens_after, seed };
    const chain = await sessions.compact(key, compaction, hold, cause);
    histories.forget(key);
    persister.announce(key, await sessions.entries(key.scope, chain.id, last_entry_id, seed.length + 1));
    return chain;
  }

  #publish<K extends "started" | "completed" | "failed">(
    key: SessionKey,
    kind: `session.compaction.${K}`,
    payload: BusPayload<`session.compaction.${K}`>,
  ): void {
    this.#deps.port.tryPublish(kind as string, payload as JsonObject, {
      session_id: KERNEL_SESSION,
      scope: key.scope,
    });
  }
}

/** Errors that a retry cannot change. */
const FINAL_ERRORS: ReadonlySet<string | undefined> = new Set([
  "request.invalid",
  "run.taken_over",
  "session.busy",
]);

/** Smaller than the window of any model in use. */
const SMALLEST_WINDOW = 1_000;
const MIN_SUMMARY_CHARS = 2_000;

/**
 * Splits before a user's message, so that no call is separated from its result, and as early as half of the
 * target allows. The last message always stays, whatever its size.
 */
export function split(entries: readonly Entry[], target: number): { older: Entry[]; recent: Entry[] } {
  let cut = entries.length;
  let tokens = 0;
  for (let n = entries.length - 1; n > 0; n--) {
    const entry = entries[n]!;
    if (entry.kind !== "event") tokens += Math.ceil(JSON.stringify(entry.payload).length / 4);
    if (entry.kind !== "message" || entry.payload.role !== "user") continue;
    if (tokens > target / 2 && cut < entries.length) break;
    cut = n;
    if (tokens > target / 2) break;
  }
  return { older: entries.slice(0, cut), recent: entries.slice(cut) };
}

function tokensOf(entries: readonly Entry[]): number {
  const builder = new ContextBuilder();
  for (const entry of entries) builder.add(entry);
  return builder.tokens;
}

/** The copy names its original, so that a resumed turn can tell its own entries from earlier ones. */
function copyOf({ id, kind, payload, meta, date }: Entry): NewEntry {
  return { kind, payload, meta: { copy_of: id, ...meta }, date };
}

/** Calls the compactor that is bound in the scope, through the door like every other call. */
export function createCompactorCall(door: Door): CompactionDeps["callCompactor"] {
  return async (caller, { session, entries }, target_tokens, { run_id, trace_id }) => {
    const [found] = await door.deps.store.bindings.discover(caller.scope, "compactor");
    if (found === undefined) return null;
    const blocks = entries.flatMap((entry) => blockOf(entry) ?? []);
    const input: JsonObject = {
      source: {
        chain_id: session.head_chain_id,
        projection: {
          transport: "inline",
          blocks: blocks as unknown as Json,
          pinned_items: [],
          token_estimate: Math.ceil(JSON.stringify(blocks).length / 4),
        },
      },
      target: { max_input_tokens: target_tokens },
      policy: { retain_system: true },
    };
    const { binding_id } = found.binding;
    const { id: session_id, head_chain_id: chain_id } = session;
    const origin = definedFields({ session_id, chain_id, run_id, trace_id });
    const ticket = await invoke(door, { caller, body: { binding_id, input, ...origin } });
    const { status, result, error } = await ticket.settled;
    if (status !== "succeeded") {
      const code = error !== null && isErrorCode(error.code) ? error.code : "loop.failed";
      throw new BackplaneError(code, `The compactor failed: ${error?.message ?? status}`);
    }
    // The door has already checked the shape of the result (accept.ts).
    const { seed_blocks = [], summary } = result as { seed_blocks?: Block[]; summary?: { text: string } };
    const date = new Date(door.deps.clock.now()).toISOString();
    return {
      summary: summary?.text ?? "",
      seed: seed_blocks.map((block) => entryOfBlock({ ...block, content: block.content ?? [] }, date)),
    };
  };
}
