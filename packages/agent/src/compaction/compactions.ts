/**
 * Compacts a conversation when its context is full (compact.auto) or on request. Older entries become a summary and
 * recent ones stay, on a new chain whose parent keeps everything. A bound compactor writes the seed of that chain; when
 * none can be used, the model of the session summarizes. A failed compaction leaves the session unchanged.
 */

import {
  BackplaneError,
  type Chain,
  COMPACTION_LIMITS,
  codeOf,
  type FailedCompactor,
  type JsonObject,
  toBackplaneError,
} from "@backplane/contract";
import {
  type Caller,
  type ChangeCause,
  type CompactionOptions,
  causeOf,
  type Logger,
  type RunHold,
  type SessionKey,
} from "@backplane/ports";
import {
  buildCompaction,
  type CompactionPublisher,
  createCompactionPublisher,
  createModelBridgeId,
  estimateCompacted,
  estimateTokens,
  findRetained,
  type HydratedSession,
  type KernelPort,
  type Persister,
  type Sessions,
} from "@backplane/session";
import type { Histories } from "../loop/history.ts";
import { causeOfTurn } from "../loop/run-record.ts";
import { executionOf } from "../loop/run-turn.ts";
import type { Turn } from "../loop/turn.ts";
import type { ChosenModel } from "../models/active-models.ts";
import type { ModelCalls } from "../models/call-model.ts";
import { summarizeWithModel } from "./built-in-summary.ts";
import {
  type CompactionResult,
  type CompactorCaller,
  type CompactorInput,
  requireWithinTarget,
} from "./call-compactor.ts";
import { type CompactorCandidate, type CompactorChoice, GENERAL_CONTEXT } from "./choose-compactor.ts";
import type { Pins } from "./pins.ts";

export interface CompactionDeps {
  port: KernelPort;
  models: ModelCalls;
  sessions: Sessions;
  persister: Persister;
  histories: Histories;
  log: Logger;
  ids: { next(noun: "trace"): string };
  pins: Pick<Pins, "restorePinned">;
  yieldToEventLoop(): Promise<void>;
  /**
   * Throws `harness.limit` if the caller belongs to a harness that may not compact, or not again. The compaction is
   * counted when its chain is written.
   */
  requireCompaction(caller: Caller): Promise<void>;
  /** Returns the model of the given instance, or of the active one, with its context window; null if there is none. */
  chooseModel(org_id: string, provider: string | null): Promise<ChosenModel | null>;
  /** The compactors that can be used, in order. Throws if the caller requested one that is not bound. */
  findCompactors(caller: Caller, choice: CompactorChoice): Promise<CompactorCandidate[]>;
  callCompactor(
    candidate: CompactorCandidate,
    input: CompactorInput,
    caller: CompactorCaller,
  ): Promise<CompactionResult>;
}

/** The name by which a caller requests a summary from the model of the session instead of a compactor. */
const MODEL_SUMMARY = "model";

interface CompactionPlan {
  key: SessionKey;
  model: ChosenModel;
  target_tokens: number;
  options: CompactionOptions;
  caller: CompactorCaller;
  hold: RunHold | undefined;
}

export class Compactions {
  readonly #deps: CompactionDeps;
  readonly #publish: CompactionPublisher;
  readonly #failed = new WeakSet<Turn>();

  constructor(deps: CompactionDeps) {
    this.#deps = deps;
    this.#publish = createCompactionPublisher(deps.port);
  }

  /**
   * Called before each model call of the turn. If a compaction fails, the turn continues with its full context and is
   * not compacted again.
   */
  async compactIfNeeded(turn: Turn, provider: string): Promise<void> {
    const { tokens } = turn.history;
    // Reading the window costs a configuration lookup, and most contexts are far below the smallest window.
    if (tokens < SMALLEST_WINDOW * COMPACTION_LIMITS.threshold || this.#failed.has(turn)) return;
    const model = await this.#deps.chooseModel(turn.key.scope.org_id, provider);
    if (model === null || tokens < model.window * COMPACTION_LIMITS.threshold) return;
    const { key, signal, hold } = turn;
    try {
      await this.#deps.requireCompaction(turn.caller);
      const target_tokens = Math.floor(model.window * COMPACTION_LIMITS.target);
      const caller = {
        caller: turn.caller,
        cause: this.#withTrace(causeOfTurn(turn.caller, turn.run)),
        signal,
      };
      const chain = await this.#run({ key, model, target_tokens, options: {}, caller, hold });
      turn.run.chain_id = chain.id;
      turn.history = await this.#deps.histories.open(turn.key);
    } catch (error) {
      if (turn.signal.aborted || codeOf(error) === "run.taken_over") throw error;
      this.#failed.add(turn);
    }
  }

  /** Compacts on request, whatever the size of the context. */
  async compact(key: SessionKey, caller: Caller, options: CompactionOptions): Promise<Chain> {
    const model = await this.#deps.chooseModel(key.scope.org_id, null);
    if (model === null) {
      throw new BackplaneError("llm.failed", "No provider instance is active.", {
        fix: "Create one with `backplane provider add`, then activate it with `backplane provider use ID`.",
      });
    }
    const { tokens } = await this.#deps.histories.open(key);
    // The caller requested this compaction, so the window is lowered to the size of the conversation.
    const window = Math.min(model.window, tokens);
    const default_target = Math.max(Math.floor(window * COMPACTION_LIMITS.target), MIN_DEFAULT_TARGET);
    await this.#deps.requireCompaction(caller);
    return await this.#run({
      key,
      model,
      target_tokens: options.max_input_tokens ?? default_target,
      options,
      caller: { caller, cause: this.#withTrace(causeOf(caller)), signal: new AbortController().signal },
      hold: undefined,
    });
  }

  /** The compactor's call and the event of the new chain have one trace, even if no call caused the compaction. */
  #withTrace(cause: ChangeCause): ChangeCause {
    return { ...cause, trace_id: cause.trace_id ?? this.#deps.ids.next("trace") };
  }

  async #run(plan: CompactionPlan): Promise<Chain> {
    const { key, caller } = plan;
    const target_session_id = key.session_id;
    const failed: FailedCompactor[] = [];
    let tokens_before = 0;
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#deps.persister.drain(key);
        const source = await this.#deps.sessions.hydrate(key);
        await this.#yieldIfLong(source);
        tokens_before = estimateTokens(source.entries);
        if (attempt === 1) this.#publish(key, "started", { target_session_id, tokens_before });
        const compacted = await this.#compact(plan, source, tokens_before, failed);
        const chain = await this.#write(plan, source, compacted, failed);
        const tokens_after = (await this.#deps.histories.open(key)).tokens;
        this.#publish(key, "completed", {
          target_session_id,
          tokens_before,
          tokens_after,
        });
        return chain;
      } catch (error) {
        const is_final = FINAL_ERRORS.has(codeOf(error));
        const is_last = is_final || attempt >= COMPACTION_LIMITS.tries || caller.signal.aborted;
        this.#deps.log.warn({ err: error, session_id: key.session_id, attempt }, "compaction failed");
        if (!is_last) continue;
        this.#publish(key, "failed", {
          target_session_id,
          error: toBackplaneError(error).message,
        });
        throw error;
      }
    }
  }

  /**
   * Tries the compactors in order and then the model. A compactor that failed is not called again in a later attempt.
   * If the caller requested a compactor, its failure fails the attempt.
   */
  async #compact(
    { key, model, target_tokens, options, caller }: CompactionPlan,
    source: HydratedSession,
    tokens_before: number,
    failed: FailedCompactor[],
  ): Promise<CompactionResult> {
    const { retain_system = true, retain_open_tasks = true, compactor: requested } = options;
    const policy = { retain_system, retain_open_tasks };
    const { pins, entries } = await this.#deps.pins.restorePinned(key, source);
    const retained = findRetained(entries, pins, policy, target_tokens);
    const { session } = source;
    const target_model = options.target_model ?? model.model;
    const input: CompactorInput = { session, entries, retained, target_tokens, target_model, policy };
    const choice = {
      requested: requested ?? null,
      target_context: options.target_context ?? contextOfSession(source),
      session_id: key.session_id,
    };
    const candidates =
      requested === MODEL_SUMMARY ? [] : await this.#deps.findCompactors(caller.caller, choice);
    for (const candidate of candidates) {
      const { binding_id, export_id } = candidate.bound.binding;
      if (failed.some((other) => other.binding_id === binding_id)) continue;
      try {
        const compacted = await this.#deps.callCompactor(candidate, input, caller);
        requireSmaller(compacted, tokens_before);
        requireWithinTarget(compacted, input);
        return compacted;
      } catch (error) {
        if (requested !== undefined || caller.signal.aborted) throw error;
        const { code, message } = toBackplaneError(error);
        failed.push({ binding_id, export_id, code, message });
        this.#deps.log.warn({ err: error, session_id: key.session_id, binding_id }, "compactor failed");
      }
    }
    await this.#yieldIfLong(source);
    // A separate session keeps this model call away from the watchers and the tape of the conversation.
    const to = { session_id: createModelBridgeId("compaction"), scope: caller.caller.scope };
    const { provider } = model;
    const { models } = this.#deps;
    const summarized = await summarizeWithModel(
      models,
      { provider, model: model.model },
      input,
      to,
      caller.signal,
    );
    // The last message stays whatever its size, and the limit of the summary has a minimum, so this may exceed the
    // target.
    requireSmaller(summarized, tokens_before);
    return summarized;
  }

  async #write(
    { key, hold, caller }: CompactionPlan,
    source: HydratedSession,
    compacted: CompactionResult,
    failed_compactors: readonly FailedCompactor[],
  ): Promise<Chain> {
    const { sessions, histories, persister } = this.#deps;
    const { compactor, diagnostics } = compacted;
    const details = { compactor, diagnostics, failed_compactors } as unknown as JsonObject;
    await this.#yieldIfLong(source);
    const compaction = buildCompaction(source, compacted, details);
    const chain = await sessions.compact(key, compaction, {
      hold,
      execution_id: executionOf(caller.caller) ?? undefined,
      cause: caller.cause,
    });
    histories.forget(key);
    const { last_entry_id } = compaction.source;
    const count = compaction.seed.length + 1;
    persister.announce(key, await sessions.readEntries(key.scope, chain.id, last_entry_id, count));
    return chain;
  }

  /** Each step over the entries of a long session takes some milliseconds; other work runs between the steps. */
  async #yieldIfLong({ entries }: HydratedSession): Promise<void> {
    if (entries.length > LONG_SESSION) await this.#deps.yieldToEventLoop();
  }
}

/** Errors that a retry cannot fix. */
const FINAL_ERRORS: ReadonlySet<string | undefined> = new Set([
  "request.invalid",
  "export.not_found",
  "run.taken_over",
  "session.busy",
  "harness.limit",
]);

/** Without this minimum, the target for a conversation of a few words would be too small for any summary. */
const MIN_DEFAULT_TARGET = 16;

/** A step over more entries than this takes long enough to delay other work. */
const LONG_SESSION = 500;

/** Smaller than the window of any model in use. */
const SMALLEST_WINDOW = 1_000;

function contextOfSession({ session }: HydratedSession): string {
  const { target_context } = session.metadata;
  return typeof target_context === "string" ? target_context : GENERAL_CONTEXT;
}

function requireSmaller(compacted: CompactionResult, tokens_before: number): void {
  const tokens_after = estimateCompacted(compacted);
  if (tokens_after < tokens_before) return;
  const { compactor } = compacted;
  if (compactor === null)
    throw new BackplaneError(
      "request.invalid",
      "The conversation is too short for a compaction to save anything.",
      { fix: "Nothing was changed. Compact the session when it has more entries." },
    );
  const { export_id, package_id, package_version } = compactor;
  throw new BackplaneError(
    "request.invalid",
    `The compactor ${export_id} of ${package_id} ${package_version} saves nothing: it returned about ${tokens_after} tokens for a conversation of about ${tokens_before}.`,
    {
      fix: "Nothing was changed. Choose another compactor, or compact the session when it has more entries.",
    },
  );
}
