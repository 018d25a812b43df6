/**
 * Makes one model call: llm.call.request, deltas forwarded as they arrive, one response. A call is retried a
 * few times, and only before the first delta, because a retry after that would repeat text that the user has
 * already read (llm.retry).
 */

import {
  BackplaneError,
  type BusEvent,
  codeOf,
  IdTable,
  isRetryableFailure,
  type JsonObject,
  LLM_LIMITS,
  type LlmErrorKind,
  type LlmOptions,
  type LlmTool,
  type NativeRequest,
  sanitizeText,
  type TokenUsage,
  type ToolCallRequest,
  tokenUsage,
} from "@backplane/contract";
import type { Clock } from "@backplane/ports";
import type { KernelPort, KernelPublishOptions } from "@backplane/session";
import type { LoadContent } from "./load-content.ts";

const MAX_MESSAGE_LENGTH = 2_000;

export interface ModelRequest {
  provider: string;
  model: string;
  messages: unknown[];
  tools: LlmTool[];
  params: JsonObject;
  options?: LlmOptions;
  native?: NativeRequest;
  /** The caller reads the answer from the deltas, and the response does not repeat it. */
  as_streamed?: boolean;
  /** Texts to embed; the answer then has `embeddings`. */
  input?: string[];
}

export interface ModelAnswer {
  /** The id of the answered request, which identifies the step that the tool calls belong to. */
  step: string;
  text: string;
  tool_calls: ToolCallRequest[];
  usage: TokenUsage;
  stop_reason: string | null;
  /** The model that answered, as reported by the vendor. */
  model: string | null;
  /** Not validated: the vendor may have returned anything. */
  embeddings?: unknown[][];
}

export type ModelDelta = BusEvent<"llm.call.delta">["payload"];

export interface ModelCallOptions {
  to: Pick<KernelPublishOptions, "session_id" | "scope">;
  signal: AbortSignal;
  timeout_ms: number;
  retries?: number;
  /** Called before each attempt. Throws when the caller has lost its authority. */
  requireAuthority?: () => Promise<void>;
  onDelta?: (text: string) => void;
  /** Called with every delta, whatever it holds. */
  onAnyDelta?: (delta: ModelDelta) => void;
}

interface Failure {
  message: string;
  kind: LlmErrorKind;
  status_code?: number;
  retryable: boolean;
  retry_after_ms: number;
}

/** Returns the name of the loaded plugin that serves an instance of the org, or null. */
export type FindProviderOwner = (org_id: string, provider: string) => Promise<string | null>;

interface PendingCall {
  owner: string;
  fail(message: string, kind: LlmErrorKind): void;
}

export class ModelCalls {
  readonly #port: KernelPort;
  readonly #clock: Clock;
  readonly #findOwner: FindProviderOwner;
  readonly #loadContent: LoadContent;
  readonly #deltas = new IdTable<(delta: ModelDelta) => void>();
  readonly #pending = new IdTable<PendingCall>();

  constructor(port: KernelPort, clock: Clock, findOwner: FindProviderOwner, loadContent: LoadContent) {
    this.#port = port;
    this.#loadContent = loadContent;
    this.#clock = clock;
    this.#findOwner = findOwner;
    // A plugin that is unloaded will not answer the call.
    port.subscribe("plugin.removed", ({ payload }) => {
      for (const pending of this.#pending.values()) {
        if (pending.owner === payload.name)
          pending.fail(`${payload.name} was unloaded during the call`, OTHER_FAILURE.kind);
      }
    });
    port.subscribe("llm.call.delta", ({ payload }) => {
      if (payload.request_id !== undefined) this.#deltas.get(payload.request_id)?.(payload);
    });
  }

  /** Throws `llm.failed` if the call fails or gets no answer, and `cancelled` when the signal is aborted. */
  async call(request: ModelRequest, options: ModelCallOptions): Promise<ModelAnswer> {
    const retries = options.retries ?? LLM_LIMITS.retries;
    for (let attempt = 0; ; attempt++) {
      await options.requireAuthority?.();
      const answer = await this.#attempt(request, attempt + 1, options);
      if ("step" in answer) return answer;
      if (!answer.retryable || attempt >= retries) {
        const { kind, status_code, retry_after_ms } = answer;
        throw new BackplaneError("llm.failed", `${request.provider}: ${answer.message}`, {
          details: {
            kind,
            ...(status_code === undefined ? {} : { status_code }),
            ...(retry_after_ms === 0 ? {} : { retry_after_ms }),
          },
        });
      }
      await this.#pause(Math.max(answer.retry_after_ms, backoff(attempt)), options.signal);
    }
  }

  async #attempt(
    request: ModelRequest,
    attempt: number,
    options: ModelCallOptions,
  ): Promise<ModelAnswer | Failure> {
    const { to, signal, timeout_ms, onDelta, onAnyDelta } = options;
    let started = false;
    let step = "";
    const owner = await this.#findOwner(to.scope.org_id, request.provider);
    if (owner === null) {
      return { ...OTHER_FAILURE, message: "no loaded plugin serves this instance", retryable: false };
    }
    const abort = new AbortController();
    const aborted: { failure?: Pick<Failure, "message" | "kind"> } = {};
    const pending: PendingCall = {
      owner,
      fail(message, kind) {
        aborted.failure = { message, kind };
        abort.abort();
      },
    };
    const stop = () => abort.abort();
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    try {
      const reply = await this.#port.request(
        "llm.call.request",
        {
          ...request,
          attempt,
          messages: (await this.#loadContent(to.scope, request.messages)) as { role: string }[],
          tools: request.tools as unknown as JsonObject[],
        },
        {
          ...to,
          reply: ["llm.call.response", "llm.call.error"],
          from: owner,
          timeout_ms,
          signal: abort.signal,
          onSent: ({ id }) => {
            step = id;
            this.#pending.set(id, pending);
            this.#deltas.set(id, (delta) => {
              const { content } = delta;
              started = true;
              onAnyDelta?.(delta);
              if (content !== undefined && content !== "") onDelta?.(content);
            });
          },
        },
      );
      if (reply.kind === "llm.call.response")
        return toModelAnswer(step, reply as BusEvent<"llm.call.response">);
      return toFailure(reply as BusEvent<"llm.call.error">, started);
    } catch (error) {
      if (signal.aborted) throw error;
      if (aborted.failure !== undefined) return { ...OTHER_FAILURE, ...aborted.failure, retryable: !started };
      // A plugin that throws would throw again. Its failures are counted, so retries for one message could unload it.
      if (codeOf(error) === "plugin_failed")
        return { ...OTHER_FAILURE, message: (error as Error).message, retryable: false };
      if (codeOf(error) !== "timeout") throw error;
      return { ...OTHER_FAILURE, kind: "timeout", message: TIMED_OUT, retryable: !started };
    } finally {
      signal.removeEventListener("abort", stop);
      this.#pending.delete(step);
      this.#deltas.delete(step);
    }
  }

  #pause(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.after(ms, () => {
        signal.removeEventListener("abort", stop);
        resolve();
      });
      const stop = () => {
        timer.stop();
        reject(new BackplaneError("cancelled", "The turn was interrupted."));
      };
      signal.addEventListener("abort", stop, { once: true });
      if (signal.aborted) stop();
    });
  }
}

const OTHER_FAILURE = { kind: "other", retry_after_ms: 0 } as const;
const TIMED_OUT = "the provider did not answer in time";

function backoff(attempt: number): number {
  return Math.min(LLM_LIMITS.backoff_ms * 2 ** attempt, LLM_LIMITS.max_backoff_ms);
}

function toFailure({ payload }: BusEvent<"llm.call.error">, started: boolean): Failure {
  const { error, kind, status_code, retry_after_s } = payload;
  const failure = {
    kind: (kind ?? "other") as LlmErrorKind,
    ...(status_code === undefined ? {} : { status_code }),
  };
  const retryable = typeof payload.retryable === "boolean" ? payload.retryable : isRetryableFailure(failure);
  // The message comes from a plugin and is shown in records and answers, so it is sanitized.
  const message = sanitizeText(error.slice(0, MAX_MESSAGE_LENGTH));
  return { ...failure, message, retryable: retryable && !started, retry_after_ms: toRetryMs(retry_after_s) };
}

/** Caps the delay that a vendor asks for, so that the turn fails instead of waiting for an hour. */
function toRetryMs(seconds: number | undefined): number {
  return Math.min((seconds ?? 0) * 1_000, LLM_LIMITS.max_backoff_ms);
}

export function toModelAnswer(
  step: string,
  { payload }: Pick<BusEvent<"llm.call.response">, "payload">,
): ModelAnswer {
  const used_ids = new Set<string>();
  const tool_calls = (payload.tool_calls ?? []).map(({ id, name, args }, n) => {
    // Results are matched by call id, and some models repeat ids or omit them.
    const unique_id = id === "" || used_ids.has(id) ? `${id || "call"}_${n}` : id;
    used_ids.add(unique_id);
    return { id: unique_id, name, args: args as JsonObject };
  });
  return {
    step,
    text: payload.text ?? "",
    tool_calls,
    usage: tokenUsage(payload.usage as Partial<TokenUsage>),
    stop_reason: textOrNull(payload.stop_reason),
    model: textOrNull(payload.model),
    ...(payload.embeddings === undefined ? {} : { embeddings: payload.embeddings }),
  };
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
