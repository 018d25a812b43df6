/**
 * Chat completions: streams one completion and converts its chunks into parts. Compatible servers may omit any field
 * except the finish reason.
 */
import {
  brokenStream,
  type GenerateRequest,
  type JsonObject,
  type LlmOptions,
  type LlmPart,
  vendorStream,
} from "@backplane/sdk/kernel";
import type { OpenAI } from "openai";
import { type CallFragment, CallSlots } from "./call-slots.ts";
import { describeMedia, toChatMessages } from "./chat-messages.ts";
import type { ConnectOpenAi } from "./client.ts";
import { acceptedMediaOf, isOpenAiUrl, type OpenAiConfig } from "./config.ts";
import { chooseEffort, mergeParams } from "./params.ts";

type Chunk = OpenAI.ChatCompletionChunk;

/** The OpenAI SDK's delta with the additional fields of compatible servers. */
interface LooseDelta {
  content?: string | null;
  refusal?: string | null;
  reasoning?: string | null;
  reasoning_content?: string | null;
  tool_calls?: CallFragment[] | null;
}

/** The OpenAI SDK's usage with the additional field of compatible servers. */
export interface LooseUsage {
  prompt_tokens?: number;
  completion_tokens?: number;
  prompt_tokens_details?: { cached_tokens?: number } | null;
  prompt_cache_hit_tokens?: number;
}

export async function* streamChat(
  connect: ConnectOpenAi,
  config: OpenAiConfig,
  request: GenerateRequest,
): AsyncGenerator<LlmPart, void, undefined> {
  const client = await connect();
  const body = buildBody(config, request);
  const openStream = (signal: AbortSignal) =>
    client.chat.completions.create(body, { signal }).catch((error: unknown) => {
      if (!refusesUsage(error)) throw error;
      const { stream_options: _, ...plain } = body;
      return client.chat.completions.create(plain, { signal });
    });
  yield* toParts(vendorStream(request.signal, openStream));
}

function buildBody(
  config: OpenAiConfig,
  request: GenerateRequest,
): OpenAI.ChatCompletionCreateParamsStreaming {
  const { max_tokens, temperature, ...params } = mergeParams(config, request);
  const tools = request.tools.map((tool) => ({ type: "function" as const, function: { ...tool } }));
  const effort = chooseEffort(config, request);
  const limit = isOpenAiUrl(config.base_url) ? "max_completion_tokens" : "max_tokens";
  const body: JsonObject = {
    ...(effort === null ? {} : { reasoning_effort: effort }),
    ...params,
    ...buildChatOptions(request),
    ...(temperature === undefined ? {} : { temperature }),
    ...(max_tokens === undefined ? {} : { [limit]: max_tokens }),
  };
  return {
    ...body,
    model: request.model,
    messages: toChatMessages(
      request.system,
      config.images ? request.history : describeMedia(request.history),
      acceptedMediaOf(config),
    ),
    ...(tools.length === 0 ? {} : { tools }),
    stream: true,
    stream_options: { include_usage: true },
  };
}

function buildChatOptions({ options = {}, tools }: GenerateRequest): JsonObject {
  const { tool_choice, parallel_tool_calls, json_output, top_p, stop } = options;
  const choice =
    typeof tool_choice === "object"
      ? { type: "function", function: { name: tool_choice.name } }
      : (tool_choice ?? null);
  return {
    ...(top_p === undefined ? {} : { top_p }),
    ...(stop === undefined ? {} : { stop }),
    ...(choice === null || tools.length === 0 ? {} : { tool_choice: choice }),
    ...(parallel_tool_calls === undefined || tools.length === 0 ? {} : { parallel_tool_calls }),
    ...(json_output === undefined ? {} : { response_format: toResponseFormat(json_output) }),
  };
}

function toResponseFormat({ name, schema, strict }: NonNullable<LlmOptions["json_output"]>): JsonObject {
  if (schema === undefined) return { type: "json_object" };
  return { type: "json_schema", json_schema: { name, schema, ...(strict === undefined ? {} : { strict }) } };
}

/**
 * Whether the server rejected `stream_options`, which older servers do not support. The caller repeats the request
 * without the usage option; the answer then has no usage.
 */
export function refusesUsage(error: unknown): boolean {
  const { status, message } = error as { status?: unknown; message?: unknown };
  return (status === 400 || status === 422) && String(message).includes("stream_options");
}

async function* toParts(stream: AsyncIterable<Chunk>): AsyncGenerator<LlmPart, void, undefined> {
  const slots = new CallSlots();
  let ended = false;
  for await (const chunk of stream) {
    const usage = chunk.usage as LooseUsage | null | undefined;
    if (usage) yield toChatUsage(usage);
    const choice = (chunk.choices as Chunk["choices"] | undefined)?.[0];
    if (choice === undefined) continue;
    const delta = (choice.delta ?? {}) as LooseDelta;
    const thinking = delta.reasoning_content ?? delta.reasoning;
    if (thinking) yield { type: "thinking", text: thinking };
    const text = delta.content || delta.refusal;
    if (text) yield { type: "content", text };
    for (const fragment of delta.tool_calls ?? []) yield slots.add(fragment);
    if (choice.finish_reason) {
      ended = true;
      yield { type: "stop", reason: choice.finish_reason, model: chunk.model };
    }
  }
  if (!ended) throw brokenStream();
}

export function toChatUsage(usage: LooseUsage): LlmPart {
  const cached = usage.prompt_tokens_details?.cached_tokens ?? usage.prompt_cache_hit_tokens ?? 0;
  return {
    type: "usage",
    usage: {
      input_other: Math.max(0, (usage.prompt_tokens ?? 0) - cached),
      input_cache_read: cached,
      output: usage.completion_tokens ?? 0,
    },
  };
}
