/**
 * Frees space in a full context (compact.auto). Older entries become a summary and recent ones stay, on a new
 * chain whose parent keeps everything. A bound compactor writes the seed of that chain; when none can be used, the
 * model of the session summarises. A failed compaction leaves the session unchanged.
 */

import {
  BackplaneError,
  type BusPayload,
  type Chain,
  COMPACTION_LIMITS,
  codeOf,
  type FailedCompactor,
  type JsonObject,
  KERNEL_SESSION,
  toBackplaneError,
} from "@backplane/contract";
import {
  type Caller,
  type CompactionOptions,
  causeOf,
  type Logger,
  type RunHold,
  type SessionKey,
} from "@backplane/ports";
import {
  type HydratedSession,
  type KernelPort,
  modelBridgeSession,
  type Persister,
  type Sessions,
} from "@backplane/session";
import type { Histories } from "../loop/history.ts";
import { causeOfTurn } from "../loop/run-record.ts";
import type { Turn } from "../loop/turn.ts";
import type { ModelCalls } from "../models/call-model.ts";
import type { ChosenModel } from "../models/models.ts";
import { summarizeWithModel } from "./built-in-summary.ts";
import type { CompactionResult, CompactorCaller, CompactorInput } from "./call-compactor.ts";
import { type CompactorCandidate, type CompactorChoice, GENERAL_CONTEXT } from "./choose-compactor.ts";
import { classifyEntries, summarizeLoss } from "./loss.ts";
import type { Pins } from "./pins.ts";
import { findRetained } from "./retained.ts";
import { estimateTokens } from "./tokens.ts";

export interface CompactionDeps {
  port: KernelPort;
  models: ModelCalls;
  sessions: Sessions;
  persister: Persister;
  histories: Histories;
  log: Logger;
  pins: Pick<Pins, "withPinned">;
  /** Throws `harness.limit` if the caller belongs to a harness that may not compact, or not again. */
  countCompaction(caller: Caller): Promise<void>;
  /** Returns the context window of the instance's model in tokens, and which model it is. */
  chooseModel(org_id: string, provider: string | null): Promise<ChosenModel | null>;
  /** The compactors that can be used, in order. Throws if the caller named one that is not bound. */
  findCompactors(caller: Caller, choice: CompactorChoice): Promise<CompactorCandidate[]>;
  callCompactor(
    candidate: CompactorCandidate,
    input: CompactorInput,
    caller: CompactorCaller,
  ): Promise<CompactionResult>;
}

/** Stands for the model of the session, which writes the summary if there is no compactor. */
const MODEL = "model";

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
  readonly #failed = new WeakSet<Turn>();

  constructor(deps: CompactionDeps) {
    this.#deps = deps;
  }

  /** Called before each model call of the turn. */
  async compactIfNeeded(turn: Turn, provider: string): Promise<void> {
    const { tokens } = turn.history;
    // Reading the window costs a configuration lookup, and most contexts are far below the smallest window.
    if (tokens < SMALLEST_WINDOW * COMPACTION_LIMITS.threshold || this.#failed.has(turn)) return;
    const model = await this.#deps.chooseModel(turn.key.scope.org_id, provider);
    if (model === null || tokens < model.window * COMPACTION_LIMITS.threshold) return;
    const { key, signal, hold } = turn;
    try {
      await this.#deps.countCompaction(turn.caller);
      const target_tokens = Math.floor(model.window * COMPACTION_LIMITS.target);
      const caller = { caller: turn.caller, cause: causeOfTurn(turn.caller, turn.run), signal };
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
    if (model === null) throw new BackplaneError("llm.failed", "No provider instance is active.");
    const { tokens } = await this.#deps.histories.open(key);
    // The user asked for this compaction, so the window is lowered to the size of the conversation.
    const window = Math.min(model.window, Math.max(tokens, 1));
    await this.#deps.countCompaction(caller);
    return await this.#run({
      key,
      model,
      target_tokens: options.max_input_tokens ?? Math.floor(window * COMPACTION_LIMITS.target),
      options,
      caller: { caller, cause: causeOf(caller), signal: new AbortController().signal },
      hold: undefined,
    });
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
        tokens_before = estimateTokens(source.entries);
        if (attempt === 1)
          this.#publish(key, "session.compaction.started", { target_session_id, tokens_before });
        const compacted = await this.#compact(plan, source, tokens_before, failed);
        const chain = await this.#write(plan, source, compacted, tokens_before, failed);
        const tokens_after = (await this.#deps.histories.open(key)).tokens;
        this.#publish(key, "session.compaction.completed", {
          target_session_id,
          tokens_before,
          tokens_after,
        });
        return chain;
      } catch (error) {
        const final = FINAL_ERRORS.has(codeOf(error));
        const last = final || attempt >= COMPACTION_LIMITS.tries || caller.signal.aborted;
        this.#deps.log.warn({ err: error, session_id: key.session_id, attempt }, "compaction failed");
        if (!last) continue;
        this.#publish(key, "session.compaction.failed", {
          target_session_id,
          error: toBackplaneError(error).message,
        });
        throw error;
      }
    }
  }

  /**
   * Tries the compactors in order and then the model. A compactor that the caller named is the only candidate.
   * One that failed is not called again in a later attempt.
   */
  async #compact(
    { key, model, target_tokens, options, caller }: CompactionPlan,
    source: HydratedSession,
    tokens_before: number,
    failed: FailedCompactor[],
  ): Promise<CompactionResult> {
    const { retain_system = true, retain_open_tasks = true, compactor: named } = options;
    const policy = { retain_system, retain_open_tasks };
    const { pins, entries } = await this.#deps.pins.withPinned(key, source);
    const retained = findRetained(entries, pins, policy, target_tokens);
    const { session } = source;
    const target_model = options.target_model ?? model.model;
    const input: CompactorInput = { session, entries, retained, target_tokens, target_model, policy };
    const choice = {
      named: named ?? null,
      target_context: options.target_context ?? contextOfSession(source),
      session_id: key.session_id,
    };
    const candidates = named === MODEL ? [] : await this.#deps.findCompactors(caller.caller, choice);
    for (const candidate of candidates) {
      const { binding_id, export_id } = candidate.bound.binding;
      if (failed.some((other) => other.binding_id === binding_id)) continue;
      try {
        const compacted = await this.#deps.callCompactor(candidate, input, caller);
        requireSmaller(compacted, tokens_before);
        return compacted;
      } catch (error) {
        if (named !== undefined || caller.signal.aborted) throw error;
        const { code, message } = toBackplaneError(error);
        failed.push({ binding_id, export_id, code, message });
        this.#deps.log.warn({ err: error, session_id: key.session_id, binding_id }, "compactor failed");
      }
    }
    // A separate session keeps this model call away from the watchers and the tape of the conversation.
    const to = { session_id: modelBridgeSession("compaction"), scope: caller.caller.scope };
    const { provider } = model;
    const { models } = this.#deps;
    const summarized = await summarizeWithModel(
      models,
      { provider, model: model.model },
      input,
      to,
      caller.signal,
    );
    requireSmaller(summarized, tokens_before);
    return summarized;
  }

  async #write(
    { key, hold, caller }: CompactionPlan,
    source: HydratedSession,
    compacted: CompactionResult,
    tokens_before: number,
    failed_compactors: readonly FailedCompactor[],
  ): Promise<Chain> {
    const { sessions, histories, persister } = this.#deps;
    const { summary, seed, compactor, diagnostics } = compacted;
    // The last entry of this chain is used, because after an undo the session also has later entries on the
    // abandoned chain.
    const last_entry_id = source.entries.at(-1)?.id ?? 0;
    const at = { chain_id: source.session.head_chain_id, last_entry_id };
    const tokens_after = tokensAfter(compacted);
    const loss = summarizeLoss(
      classifyEntries(
        source.entries,
        seed.map((entry) => ({ id: 0, ...entry })),
      ),
    );
    const first_entry_id = source.entries[0]?.id ?? 0;
    const record = {
      first_entry_id,
      compactor,
      diagnostics,
      loss,
      failed_compactors,
    } as unknown as JsonObject;
    const made = { summary, source: at, tokens_before, tokens_after, seed, record };
    const chain = await sessions.compact(key, made, hold, caller.cause);
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
  "export.not_found",
  "run.taken_over",
  "session.busy",
]);

/** Smaller than the window of any model in use. */
const SMALLEST_WINDOW = 1_000;

function contextOfSession({ session }: HydratedSession): string {
  const { target_context } = session.metadata;
  return typeof target_context === "string" ? target_context : GENERAL_CONTEXT;
}

function tokensAfter({ summary, seed }: CompactionResult): number {
  return Math.ceil(summary.length / 4) + estimateTokens(seed.map((entry) => ({ id: 0, ...entry })));
}

function requireSmaller(compacted: CompactionResult, tokens_before: number): void {
  const tokens_after = tokensAfter(compacted);
  if (tokens_after >= tokens_before) {
    throw new BackplaneError(
      "request.invalid",
      "The conversation is too short for a compaction to save anything.",
    );
  }
}
