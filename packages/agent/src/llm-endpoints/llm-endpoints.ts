/**
 * Calls to provider instances on behalf of API clients (llm.gateway). The record of a call and its share of every
 * budget are on disk before the provider is called, in one transaction. Failed calls are not retried here, because the
 * client retries on its own and every attempt is a separate call.
 */
import {
  BackplaneError,
  codeOf,
  isId,
  type JsonObject,
  type LlmCall,
  type LlmKeyLimits,
  LOOP_LIMITS,
  toBackplaneError,
} from "@backplane/contract";
import type { Door } from "@backplane/door";
import type {
  Caller,
  KernelDeps,
  LlmBudgetUse,
  LlmEndpointPart,
  LlmEndpointRequest,
  LlmEndpoints,
  Timer,
} from "@backplane/ports";
import { createModelBridgeId, type KernelPort } from "@backplane/session";
import type { ModelAnswer, ModelCalls, ModelDelta } from "../models/call-model.ts";
import { listBudgetUses } from "./budgets.ts";
import { estimateInput } from "./estimate-input.ts";
import {
  listOfferedModels,
  type OfferedModel,
  type OfferedModelsDeps,
  resolveModel,
} from "./offered-models.ts";
import { PartQueue } from "./part-queue.ts";

/** The tokens that a running call reserves for its answer if the client sets no valid limit. */
const RESERVED_OUTPUT = 4_096;
/** No model returns more tokens. One cancelled call must not use up a project's budget for a month. */
const MAX_RESERVED_OUTPUT = 1_000_000;
const CHARS_PER_TOKEN = 4;
/** The maximum number of answers that a vendor returns for one request. */
const MAX_CHOICES = 128;
/**
 * How many concurrent calls one credential may have: a fraction of those that the endpoints serve, so that one
 * credential cannot block all others.
 */
export const MAX_CALLS_PER_CALLER = 250;
/** The longest time between two searches for calls of stopped gateways. */
const SWEEP_MS = 60_000;
/** How long a call may outlast its deadline. */
const SETTLE_GRACE_MS = 30_000;

interface EndpointOptions extends OfferedModelsDeps {
  deps: Pick<KernelDeps, "store" | "clock" | "ids" | "log" | "node_id" | "host">;
  port: KernelPort;
  models: ModelCalls;
  door: Pick<Door, "authority" | "lease" | "policies" | "store_wait">;
  prepare(org_id: string): Promise<void>;
}

interface EndpointAdmission {
  /** The credential behind the call; for a call from a plugin, the credential that called the plugin. */
  root: string;
  key: { id: string; limits: LlmKeyLimits } | null;
  model: OfferedModel;
}

interface OpenCall {
  record: LlmCall;
  uses: LlmBudgetUse[];
  /** The tokens that the call reserves in its budgets until it is settled. */
  reserved: number;
  began: number;
}

export interface LlmEndpointModule {
  facade: LlmEndpoints;
  /** Ends the calls of stopped gateways: once now, and periodically if the store is shared. */
  start(): Promise<void>;
  /** Cancels the running answers and waits until their calls are settled. */
  stop(): Promise<void>;
}

export function createLlmEndpoints(endpoint_options: EndpointOptions): LlmEndpointModule {
  const { deps, door, models, port } = endpoint_options;
  const { store, clock, ids, log } = deps;
  const running = new Set<{ abort: AbortController; done: Promise<void> }>();
  const calls_by_root = new Map<string, number>();
  let sweep: Timer | null = null;

  async function resolveKey(caller: Caller): Promise<Pick<EndpointAdmission, "root" | "key">> {
    const { actor } = await door.authority.resolveRoot(caller);
    const root = `${caller.scope.org_id}/${actor}`;
    if (!isId("key", actor)) return { root, key: null };
    const key = await store.keys.get(caller.scope.org_id, actor);
    return { root, key: { id: actor, limits: key?.llm ?? {} } };
  }

  /** Counts a call from this caller until the returned function is called. Throws `request.overloaded`. */
  function reserveCall(root: string): () => void {
    const count = calls_by_root.get(root) ?? 0;
    if (count >= MAX_CALLS_PER_CALLER)
      throw new BackplaneError(
        "request.overloaded",
        `This credential has reached the limit of ${MAX_CALLS_PER_CALLER} concurrent model calls. Retry when one has ended.`,
        { details: { limit: MAX_CALLS_PER_CALLER, retry_after_ms: 1_000 } },
      );
    calls_by_root.set(root, count + 1);
    return () => {
      const left = (calls_by_root.get(root) ?? 1) - 1;
      if (left === 0) calls_by_root.delete(root);
      else calls_by_root.set(root, left);
    };
  }

  async function listOffered(caller: Caller, limits: LlmKeyLimits | undefined): Promise<OfferedModel[]> {
    const { org_id } = caller.scope;
    await endpoint_options.prepare(org_id);
    return await listOfferedModels(endpoint_options, org_id, limits?.models);
  }

  async function admit(caller: Caller, name: string): Promise<EndpointAdmission> {
    await door.authority.require(caller);
    const { root, key } = await resolveKey(caller);
    return { root, key, model: resolveModel(await listOffered(caller, key?.limits), name) };
  }

  async function openCall(
    caller: Caller,
    request: LlmEndpointRequest,
    { key, model }: EndpointAdmission,
    operation: LlmCall["operation"],
  ): Promise<OpenCall> {
    const now = clock.now();
    const { scope, delegation } = caller;
    const { llm } = (await door.policies.getEffective(scope)).document;
    const uses = listBudgetUses(key, { scope, limits: llm }, now);
    const counts_tokens = operation === "generate" && uses.some(({ subject }) => subject.endsWith(":tokens"));
    const output = computeReservedOutput(request.options.max_tokens) * countChoices(request.body);
    const reserved = counts_tokens ? estimateInput(request.body) + Math.min(output, MAX_RESERVED_OUTPUT) : 0;
    const record: LlmCall = {
      id: ids.next("llm_call"),
      ...scope,
      status: "running",
      protocol: request.protocol,
      operation,
      stream: request.stream,
      provider: model.provider,
      model: model.model,
      requested_model: request.model,
      actor: caller.actor,
      key_id: key?.id ?? null,
      invocation_id: delegation?.invocation_id ?? null,
      session_id: delegation?.ids?.session_id ?? null,
      run_id: delegation?.ids?.run_id ?? null,
      execution_id: delegation?.execution_id ?? null,
      started_at: new Date(now).toISOString(),
      first_part_ms: null,
      duration_ms: null,
      usage: null,
      stop_reason: null,
      error: null,
    };
    try {
      await store.llm_calls.open(record, now + LOOP_LIMITS.model_ms, uses, reserved, deps.node_id);
    } catch (error) {
      throw withRetryAfter(error, now);
    }
    return { record, uses, reserved, began: clock.monotonic() };
  }

  async function settleCall(
    { record, uses, reserved, began }: OpenCall,
    ending: Partial<LlmCall>,
    used = reserved,
  ): Promise<void> {
    const duration_ms = Math.round(clock.monotonic() - began);
    const ended: LlmCall = { ...record, duration_ms, ...ending };
    try {
      await door.store_wait.run("a model call", () => store.llm_calls.settle(ended, uses, used - reserved));
    } catch (error) {
      log.error({ err: error, llm_call: record.id }, "a model call could not be settled");
    }
  }

  /** Calls the provider and settles the record, whatever the outcome. */
  async function runCall(
    caller: Caller,
    request: LlmEndpointRequest,
    { model }: EndpointAdmission,
    call: OpenCall,
    signal: AbortSignal,
    push: (part: LlmEndpointPart) => void,
  ): Promise<ModelAnswer> {
    const to = { session_id: createModelBridgeId("llm-endpoint"), scope: caller.scope };
    const { protocol, stream, body, headers, messages, tools, options } = request;
    const is_native = model.plugin.protocols?.includes(protocol) === true;
    const { operation } = call.record;
    // The interrupt of the session makes the provider stop reading an answer that is no longer needed.
    const interrupt = () => void port.tryPublish("user.interrupt", {}, to);
    signal.addEventListener("abort", interrupt, { once: true });
    let first_part_ms: number | null = null;
    let streamed = 0;
    let answer: ModelAnswer;
    try {
      answer = await models.call(
        {
          provider: model.provider,
          model: model.model,
          messages,
          tools,
          params: {},
          options,
          ...(is_native ? { native: { protocol, operation, body, stream, headers } } : {}),
          as_streamed: true,
        },
        {
          to,
          signal,
          timeout_ms: LOOP_LIMITS.model_ms,
          retries: 0,
          onAnyDelta(delta) {
            first_part_ms ??= Math.round((clock.monotonic() - call.began) * 10) / 10;
            for (const part of toParts(delta)) {
              streamed += estimatePartTokens(part);
              push(part);
            }
          },
        },
      );
    } catch (error) {
      const { code, message, details } = toBackplaneError(error);
      const status = typeof details?.status_code === "number" ? details.status_code : null;
      const ending = { first_part_ms, error: { code, message, status } };
      // An interrupted call has used tokens that were not reported. They are counted as the reservation, or
      // as the streamed tokens if those are more.
      const used = Math.max(call.reserved, streamed);
      if (signal.aborted) await settleCall(call, { ...ending, status: "cancelled" }, used);
      else await settleCall(call, { ...ending, status: "failed" }, first_part_ms === null ? 0 : used);
      throw error;
    } finally {
      signal.removeEventListener("abort", interrupt);
    }
    // A provider that does not stream sends the whole answer at the end.
    if (first_part_ms === null) for (const part of unstreamedParts(answer)) push(part);
    const { usage, stop_reason } = answer;
    // A provider that reports no usage has used tokens nevertheless.
    const used = usage.total > 0 ? usage.total : Math.max(call.reserved, streamed);
    await settleCall(call, { status: "succeeded", first_part_ms, usage, stop_reason }, used);
    return answer;
  }

  async function endLostCalls(before: number): Promise<void> {
    // Right after an outage of the store, the lease of a live gateway may have expired. With null, the leases are
    // ignored and only calls past their deadline end.
    const now = door.lease.mayTakeOver() ? clock.now() : null;
    const lost = await store.llm_calls.endLost(before, now);
    if (lost > 0) log.warn({ calls: lost }, "model calls were lost when a gateway stopped");
  }

  /** Every gateway ends the calls of stopped gateways, because the update has the same result whoever makes it. */
  function scheduleSweep(): void {
    sweep = clock.after(Math.min(SWEEP_MS, deps.host.recovery.interval_ms), () => {
      void endLostCalls(clock.now() - SETTLE_GRACE_MS)
        .catch((error: unknown) => log.warn({ err: error }, "lost model calls could not be ended"))
        .then(() => {
          if (sweep !== null) scheduleSweep();
        });
    });
  }

  const facade: LlmEndpoints = {
    async listModels(caller) {
      const { key } = await resolveKey(caller);
      return (await listOffered(caller, key?.limits)).map(({ id, provider, model, label }) => ({
        id,
        provider,
        model,
        label,
      }));
    },
    async call(caller, request, signal) {
      const admitted = await admit(caller, request.model);
      const release = reserveCall(admitted.root);
      const call = await openCall(caller, request, admitted, "generate").catch((error: unknown) => {
        release();
        throw error;
      });
      const abort = new AbortController();
      const stop = () => abort.abort();
      const queue = new PartQueue(stop);
      signal.addEventListener("abort", stop, { once: true });
      if (signal.aborted) stop();
      const completion = runCall(caller, request, admitted, call, abort.signal, (part) =>
        queue.push(part),
      ).then(
        ({ usage, stop_reason, model }) => {
          queue.push({ type: "end", usage, stop_reason, model: model ?? admitted.model.model });
          queue.end();
        },
        (error: unknown) => queue.fail(error),
      );
      const entry = { abort, done: completion };
      running.add(entry);
      void completion.finally(() => {
        running.delete(entry);
        release();
        signal.removeEventListener("abort", stop);
      });
      return { id: call.record.id, parts: queue };
    },
    async countTokens(caller, request, signal) {
      const admitted = await admit(caller, request.model);
      if (admitted.model.plugin.protocols?.includes(request.protocol) !== true)
        return estimateInput(request.body);
      let response: JsonObject = {};
      const release = reserveCall(admitted.root);
      try {
        const call = await openCall(caller, request, admitted, "count_tokens");
        await runCall(caller, request, admitted, call, signal, (part) => {
          if (part.type === "native") response = part.event;
        });
      } finally {
        release();
      }
      const { input_tokens } = response;
      return typeof input_tokens === "number" ? input_tokens : estimateInput(request.body);
    },
    async get(caller, id) {
      const call = await store.llm_calls.get(caller.scope, id);
      if (call === null) throw new BackplaneError("llm.call_not_found");
      return call;
    },
    list: (caller, filter, page) => store.llm_calls.list(caller.scope, filter, page),
  };
  return {
    facade,
    async start() {
      // If the store is not shared, no other gateway has calls that may still run.
      await endLostCalls(store.shared ? clock.now() - SETTLE_GRACE_MS : Number.MAX_SAFE_INTEGER);
      if (store.shared) scheduleSweep();
    },
    async stop() {
      sweep?.stop();
      sweep = null;
      for (const { abort } of running) abort.abort();
      await Promise.all([...running].map(({ done }) => done));
    },
  };
}

/** A client may send any number as its limit; the provider decides whether it is valid. */
function computeReservedOutput(max_tokens = RESERVED_OUTPUT): number {
  return max_tokens >= 1 ? Math.ceil(Math.min(max_tokens, MAX_RESERVED_OUTPUT)) : RESERVED_OUTPUT;
}

/** Returns the number of answers that the client requests (`n` of chat completions). Each can reach the token limit. */
function countChoices({ n }: JsonObject): number {
  return typeof n === "number" && n >= 1 ? Math.min(Math.ceil(n), MAX_CHOICES) : 1;
}

/** A native event counts as one token, because a vendor sends about one event for each token. */
function estimatePartTokens(part: LlmEndpointPart): number {
  if (part.type === "native") return 1;
  const text = part.type === "tool_call" ? part.args : "text" in part ? part.text : undefined;
  return Math.ceil((text?.length ?? 0) / CHARS_PER_TOKEN);
}

function* toParts(delta: ModelDelta): Generator<LlmEndpointPart> {
  const { content, thinking, thinking_seal, tool_call_partial, native } = delta;
  for (const event of native ?? []) yield { type: "native", event: event as JsonObject };
  if (thinking !== undefined) yield { type: "thinking", text: thinking };
  if (thinking_seal !== undefined) yield { type: "thinking_seal", seal: thinking_seal };
  if (content !== undefined) yield { type: "content", text: content };
  if (tool_call_partial !== undefined) {
    const { index, id, name, args } = tool_call_partial as {
      index?: number;
      id?: string;
      name?: string;
      args?: string;
    };
    yield {
      type: "tool_call",
      index: index ?? 0,
      ...(id === undefined ? {} : { id }),
      ...(name === undefined ? {} : { name }),
      ...(args === undefined ? {} : { args }),
    };
  }
}

function* unstreamedParts({ text, tool_calls }: ModelAnswer): Generator<LlmEndpointPart> {
  if (text !== "") yield { type: "content", text };
  for (const [index, { id, name, args }] of tool_calls.entries())
    yield { type: "tool_call", index, id, name, args: JSON.stringify(args) };
}

/** The store reports when the period ends; clients expect the time until then. */
function withRetryAfter(error: unknown, now: number): unknown {
  if (codeOf(error) !== "llm.budget_exceeded") return error;
  const { message, details } = toBackplaneError(error);
  const retry_after_ms = Math.max(1_000, Number(details?.ends_at) - now);
  return new BackplaneError("llm.budget_exceeded", message, { details: { ...details, retry_after_ms } });
}
