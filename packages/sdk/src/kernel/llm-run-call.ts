/**
 * Runs one model call from llm.call.request to its end: deltas while it streams, then exactly one
 * llm.call.response or llm.call.error, all with the request's id. A call that the user interrupted ends
 * without either.
 */
import {
  type BusEvent,
  type ChatMessage,
  type GenerateRequest,
  isRetryableFailure,
  type JsonObject,
  type LlmFailure,
  type LlmPart,
  type LlmProvider,
  type LlmTool,
  LOOP_LIMITS,
  type PluginContext,
  type ProviderInstance,
  tokenUsage,
} from "@backplane/contract";
import { AnswerDraft, type LlmAnswer } from "./llm-answer.ts";
import { type DeltaPart, Deltas } from "./llm-deltas.ts";
import { classifyFailure, LlmCallError, redact, upstreamText } from "./llm-failure.ts";
import { splitMessages } from "./llm-history.ts";
import { configTimeout } from "./llm-vendor.ts";

/** The reason for an abort that needs no error event. */
export const INTERRUPTED = "interrupted";

export interface ProviderCall {
  event: BusEvent<"llm.call.request">;
  ctx: PluginContext;
  instance: ProviderInstance;
  /** Creates the provider, or returns the existing one. */
  provider(): LlmProvider;
  classify?: (error: unknown) => LlmFailure;
  controller: AbortController;
}

export async function runCall(call: ProviderCall): Promise<void> {
  const { ctx, event, controller } = call;
  const deltas = new Deltas(ctx, event.session_id, event.id);
  const isInterrupted = () => controller.signal.aborted && controller.signal.reason === INTERRUPTED;
  controller.signal.addEventListener("abort", () => {
    if (isInterrupted()) deltas.discard();
  });
  let outcome: { answer: LlmAnswer } | { error: unknown };
  try {
    const { input } = event.payload;
    const answer = input === undefined ? await streamAnswer(call, deltas) : await embedTexts(call, input);
    await deltas.drain();
    outcome = { answer };
  } catch (error) {
    // Queued deltas are sent before the end event, whether or not the call failed.
    await deltas.drain().catch(() => undefined);
    outcome = { error };
  }
  if (isInterrupted()) return;
  const [request_id, session_id] = [event.id, event.session_id];
  if ("answer" in outcome) {
    const { answer } = outcome;
    const tool_calls = answer.tool_calls.map((call) => ({ ...call }));
    const payload = { ...answer, tool_calls, usage: { ...answer.usage }, request_id };
    await ctx.emit("llm.call.response", payload, { session_id });
  } else {
    const { message: error, ...failure } = await explain(call, outcome.error);
    await ctx.emit("llm.call.error", { error, ...failure, request_id }, { session_id });
  }
}

async function streamAnswer(call: ProviderCall, deltas: Deltas): Promise<LlmAnswer> {
  const { event, instance, controller } = call;
  const { signal } = controller;
  const { payload } = event;
  const messages = payload.messages as unknown as ChatMessage[];
  const draft = new AnswerDraft();
  const parts = call
    .provider()
    .generate({
      model: payload.model || toText(instance.config.model),
      ...splitMessages(messages),
      tools: (payload.tools ?? []).map(toTool),
      params: payload.params as JsonObject,
      ...optionsOf(payload),
      signal,
    })
    [Symbol.asyncIterator]();
  const timeouts = new AnswerTimeouts(controller, configTimeout(instance.config.timeout_s));
  try {
    for (;;) {
      const step = await timeouts.wait(() => parts.next());
      if (step.done === true) break;
      draft.add(step.value);
      if (isShown(step.value)) await deltas.push(step.value);
    }
  } finally {
    timeouts.end();
    // Not awaited, because a stuck stream would delay the interrupt.
    if (signal.aborted) void Promise.resolve(parts.return?.()).catch(() => undefined);
  }
  return draft.finish(callIds(messages), `call_${event.id}`, payload.as_streamed === true);
}

function optionsOf(payload: Record<string, unknown>): Pick<GenerateRequest, "options" | "native"> {
  const { options, native } = payload as Pick<GenerateRequest, "options" | "native">;
  return { ...(options === undefined ? {} : { options }), ...(native === undefined ? {} : { native }) };
}

async function embedTexts(call: ProviderCall, texts: readonly string[]): Promise<LlmAnswer> {
  const { event, instance, controller } = call;
  const provider = call.provider();
  if (provider.embed === undefined)
    throw new LlmCallError({ kind: "other", message: "This provider has no embeddings." });
  const timeouts = new AnswerTimeouts(controller, configTimeout(instance.config.timeout_s));
  try {
    const { model } = event.payload;
    const { vectors, usage } = await timeouts.wait(() =>
      provider.embed!({ model, texts, signal: controller.signal }),
    );
    const embeddings = vectors.map((vector) => [...vector]);
    return { text: "", tool_calls: [], usage: tokenUsage(usage), embeddings };
  } finally {
    timeouts.end();
  }
}

/**
 * Waits for each part until the instance's `timeout_s`, the loop's deadline for the whole answer, or the
 * abort, whichever comes first.
 */
class AnswerTimeouts {
  readonly #controller: AbortController;
  readonly #timer: NodeJS.Timeout;
  readonly #total: NodeJS.Timeout;
  #waiting = false;

  constructor(controller: AbortController, seconds: number) {
    const stop = (message: string) => controller.abort(new LlmCallError({ kind: "timeout", message }));
    this.#controller = controller;
    this.#timer = setTimeout(() => {
      // The timeout does not apply while the bus is slow, because the vendor does not cause that delay.
      if (this.#waiting) stop(`The model sent nothing for ${seconds} s.`);
    }, seconds * 1_000);
    this.#total = setTimeout(() => stop("The model's answer took too long."), LOOP_LIMITS.model_ms);
  }

  wait<T>(next: () => Promise<T>): Promise<T> {
    const { signal } = this.#controller;
    this.#timer.refresh();
    this.#waiting = true;
    return new Promise<T>((resolve, reject) => {
      const stop = () => reject(signal.reason as Error);
      if (signal.aborted) {
        stop();
        return;
      }
      signal.addEventListener("abort", stop, { once: true });
      const settle = () => {
        this.#waiting = false;
        signal.removeEventListener("abort", stop);
      };
      next().then(
        (value) => {
          settle();
          resolve(value);
        },
        (error: unknown) => {
          settle();
          reject(error as Error);
        },
      );
    });
  }

  end(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#total);
  }
}

async function explain(call: ProviderCall, error: unknown): Promise<LlmFailure & { retryable: boolean }> {
  const { config } = call.instance;
  const unredacted = toFailure(error, call.classify);
  const upstream = redact(upstreamText(error), config);
  if (!unredacted.message.includes(upstream)) {
    // The operator may read the server's text in the log; a caller must not learn the response of an
    // arbitrary address.
    call.ctx.log.warn({ provider: call.instance.id, upstream }, "a model call failed");
  }
  const failure = { ...unredacted, message: redact(unredacted.message, config) };
  const is_retryable = wantsRetry(error) || isRetryableFailure(failure);
  return { ...failure, retryable: is_retryable && (await mayRetry(call, failure)) };
}

function toFailure(error: unknown, classify: ProviderCall["classify"]): LlmFailure {
  const is_classified = typeof error === "object" && error !== null && "failure" in error;
  if (is_classified || classify === undefined) return classifyFailure(error);
  try {
    return classify(error);
  } catch {
    return classifyFailure(error);
  }
}

/** The provider's own decision about a retry; a check that throws counts as absent. */
async function mayRetry(call: ProviderCall, failure: LlmFailure): Promise<boolean> {
  const { attempt } = call.event.payload as { attempt?: unknown };
  try {
    const verdict = await call
      .provider()
      .onRetryableError?.(failure, typeof attempt === "number" ? attempt : 1);
    return verdict ?? true;
  } catch {
    return true;
  }
}

function wantsRetry(error: unknown): boolean {
  return typeof error === "object" && error !== null && (error as { retryable?: unknown }).retryable === true;
}

function isShown(part: LlmPart): part is DeltaPart {
  if (part.type === "usage" || part.type === "stop") return false;
  return (part.type !== "content" && part.type !== "thinking") || part.text !== "";
}

function toTool(tool: Record<string, unknown>): LlmTool {
  const { parameters } = tool;
  return {
    name: toText(tool.name),
    description: toText(tool.description),
    parameters:
      typeof parameters === "object" && parameters !== null
        ? (parameters as JsonObject)
        : { type: "object", properties: {} },
  };
}

function callIds(messages: readonly ChatMessage[]): Set<string> {
  const ids = new Set<string>();
  for (const message of messages) {
    if (message.role === "assistant") for (const { id } of message.tool_calls ?? []) ids.add(id);
  }
  return ids;
}

function toText(value: unknown): string {
  return typeof value === "string" ? value : "";
}
