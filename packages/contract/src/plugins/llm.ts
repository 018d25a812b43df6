/**
 * Messages between the kernel and model providers (llm.provider). A provider streams parts and ends with its usage; the
 * bus carries each part as llm.call.delta and the end as one llm.call.response or llm.call.error.
 */

import type { Json, JsonObject } from "../values/json.ts";
import type { LlmProtocol } from "../vocabulary/vocabulary.ts";
import type { StopSignal } from "./kernel-plugin.ts";

/** `input` is the sum of input_other, cache read and cache creation; `total` is the sum of `input` and `output`. */
export interface TokenUsage {
  input_other: number;
  input_cache_read: number;
  input_cache_creation: number;
  output: number;
  input: number;
  total: number;
}

export interface ToolCallRequest {
  id: string;
  name: string;
  args: JsonObject;
}

/**
 * `seal` is the vendor's proof that its model wrote the text, as `VENDOR:PROOF`. A provider sends blocks of its own
 * vendor back to the model and leaves out all others.
 */
export interface ThinkingBlock {
  text: string;
  seal?: string;
}

export type ChatMessage =
  | { role: "system"; content: Json }
  | { role: "user"; content: Json; attachments?: JsonObject[] }
  | { role: "assistant"; content: Json; tool_calls?: ToolCallRequest[]; thinking?: ThinkingBlock[] }
  | { role: "tool"; tool_call_id: string; content: Json; is_error?: boolean };

export interface LlmTool {
  name: string;
  description: string;
  parameters: JsonObject;
}

/**
 * One chunk of the stream. The first chunk of a tool call has its id and name; `args` are fragments of its JSON text.
 */
export type LlmPart =
  | { type: "content"; text: string }
  | { type: "thinking"; text: string }
  /** Ends a block of thinking. */
  | { type: "thinking_seal"; seal: string }
  | { type: "tool_call"; index: number; id?: string; name?: string; args?: string }
  | { type: "usage"; usage: Partial<Omit<TokenUsage, "input" | "total">> }
  /** The vendor's own finish reason. */
  | { type: "stop"; reason?: string; model?: string }
  /** An event of the vendor's stream, or its whole response, for a request that is passed on unchanged. */
  | { type: "native"; event: JsonObject };

/**
 * A request in the vendor's own protocol. A provider that speaks it passes the body on and reports the vendor's events
 * as `native` parts, so that nothing is lost in a translation. Every other provider uses the rest of the request.
 */
export interface NativeRequest {
  protocol: LlmProtocol;
  operation: "generate" | "count_tokens";
  body: JsonObject;
  stream: boolean;
  /** Headers of the client that select features of the vendor's API. */
  headers: Record<string, string>;
}

/** Settings of one call in the terms that all vendors share; a provider translates them. */
export interface LlmOptions {
  max_tokens?: number;
  temperature?: number;
  top_p?: number;
  stop?: string[];
  tool_choice?: "auto" | "none" | "required" | { name: string };
  parallel_tool_calls?: boolean;
  reasoning_effort?: string;
  /** The answer must be JSON; if there is a schema, it must match. */
  json_output?: { name: string; schema?: JsonObject; strict?: boolean };
}

export interface GenerateRequest {
  model: string;
  system: string;
  tools: readonly LlmTool[];
  /** Excludes system messages. */
  history: readonly Exclude<ChatMessage, { role: "system" }>[];
  params: JsonObject;
  options?: LlmOptions;
  native?: NativeRequest;
  signal: StopSignal;
}

export interface EmbedRequest {
  model: string;
  texts: readonly string[];
  signal: StopSignal;
}

/** One vector per text, in the same order and all of the same size. */
export interface Embeddings {
  vectors: readonly (readonly number[])[];
  usage?: Partial<Omit<TokenUsage, "input" | "total">>;
}

export interface LlmProvider {
  generate(request: GenerateRequest): AsyncIterable<LlmPart>;
  /** Absent if the vendor has no embeddings. Called for instances with an `embedding_model`. */
  embed?(request: EmbedRequest): Promise<Embeddings>;
  /** Called before a retry; returning false prevents the retry. */
  onRetryableError?(error: LlmFailure, attempt: number): boolean | Promise<boolean>;
}

export const LLM_ERROR_KINDS = ["connection", "timeout", "status", "empty", "other"] as const;
export type LlmErrorKind = (typeof LLM_ERROR_KINDS)[number];

export interface LlmFailure {
  kind: LlmErrorKind;
  message: string;
  status_code?: number;
  retry_after_s?: number;
}

export const LLM_LIMITS = {
  /** Retries after the first attempt, only before the first delta. */
  retries: 3,
  backoff_ms: 500,
  max_backoff_ms: 30_000,
} as const;

export function tokenUsage(raw: Partial<Omit<TokenUsage, "input" | "total">> = {}): TokenUsage {
  const { input_other = 0, input_cache_read = 0, input_cache_creation = 0, output = 0 } = raw;
  const input = input_other + input_cache_read + input_cache_creation;
  return { input_other, input_cache_read, input_cache_creation, output, input, total: input + output };
}

export function addTokenUsage(a: TokenUsage, b: TokenUsage): TokenUsage {
  const sum = (field: keyof TokenUsage) => a[field] + b[field];
  return tokenUsage({
    input_other: sum("input_other"),
    input_cache_read: sum("input_cache_read"),
    input_cache_creation: sum("input_cache_creation"),
    output: sum("output"),
  });
}

/** True for connection errors, timeouts, empty answers, and HTTP statuses that indicate a temporary failure. */
export function isRetryableFailure({ kind, status_code }: Pick<LlmFailure, "kind" | "status_code">): boolean {
  if (kind === "status") {
    return status_code === 408 || status_code === 409 || status_code === 429 || (status_code ?? 0) >= 500;
  }
  return kind === "connection" || kind === "timeout" || kind === "empty";
}
