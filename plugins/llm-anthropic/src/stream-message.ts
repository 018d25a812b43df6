/** Sends one Messages request and converts its stream into parts. */
import type { Anthropic } from "@anthropic-ai/sdk";
import {
  brokenStream,
  type GenerateRequest,
  type JsonObject,
  type LlmOptions,
  type LlmPart,
  vendorStream,
} from "@backplane/sdk/kernel";
import type { ConnectAnthropic } from "./client.ts";
import { type AnthropicConfig, budgetOf } from "./config.ts";
import { isOwnThinking, markLastTurn, REDACTED_SEAL, SIGNATURE_SEAL, toTurns } from "./turns.ts";

const CACHE_MARKER = { cache_control: { type: "ephemeral" } } as const;
/** Fields that define the request itself cannot be overridden by parameters. */
const RESERVED_FIELDS = new Set(["model", "messages", "system", "tools", "stream"]);
/** Tokens for the answer in addition to the thinking budget. */
const ANSWER_TOKENS = 1_024;
/** The API refuses a smaller thinking budget. */
const MIN_BUDGET = 1_024;

export async function* streamMessage(
  connect: ConnectAnthropic,
  config: AnthropicConfig,
  request: GenerateRequest,
): AsyncGenerator<LlmPart, void, undefined> {
  const client = await connect();
  const body = buildBody(config, request);
  yield* toParts(vendorStream(request.signal, (signal) => client.messages.create(body, { signal })));
}

function buildBody(
  config: AnthropicConfig,
  request: GenerateRequest,
): Anthropic.MessageCreateParamsStreaming {
  const { system, history } = request;
  const mark = config.cache ? CACHE_MARKER : {};
  const messages = toTurns(history, new Set(config.documents ? ["document" as const] : []));
  if (config.cache) markLastTurn(messages);
  const tools = request.tools.map(({ name, description, parameters }, at, { length }) => ({
    name,
    description,
    input_schema: parameters as Anthropic.Tool.InputSchema,
    ...(at === length - 1 ? mark : {}),
  }));
  return {
    ...buildSamplingParams(config, request),
    model: request.model,
    ...(system === "" ? {} : { system: [{ type: "text", text: system, ...mark }] }),
    messages,
    ...(tools.length === 0 ? {} : { tools }),
    stream: true,
  };
}

function buildSamplingParams(config: AnthropicConfig, request: GenerateRequest) {
  const { params, history } = request;
  const requested: JsonObject = {
    ...toOptionParams(request),
    ...Object.fromEntries(Object.entries(params).filter(([key]) => !RESERVED_FIELDS.has(key))),
  };
  const max_tokens = typeof requested.max_tokens === "number" ? requested.max_tokens : config.max_tokens;
  const budget = chooseThinkingBudget(config, request);
  // In the middle of a turn the API requires the signed thinking blocks that began the turn. The tape does not keep
  // them, so thinking is then enabled only if a client of the model endpoints sent them.
  if (budget > 0 && (history.at(-1)?.role !== "tool" || hasSignedThinking(history))) {
    const { temperature: _, ...rest } = requested;
    return {
      thinking: { type: "enabled" as const, budget_tokens: budget },
      ...rest,
      max_tokens: Math.max(max_tokens, budget + ANSWER_TOKENS),
    };
  }
  return {
    ...(config.temperature === null ? {} : { temperature: config.temperature }),
    ...requested,
    max_tokens,
  };
}

function chooseThinkingBudget(config: AnthropicConfig, { options = {} }: GenerateRequest): number {
  const { reasoning_effort, max_tokens, tool_choice } = options;
  // The API refuses a forced tool call together with thinking.
  if (tool_choice === "required" || typeof tool_choice === "object") return 0;
  const budget =
    (reasoning_effort === undefined ? null : budgetOf(reasoning_effort)) ?? config.thinking_budget;
  if (max_tokens === undefined) return budget;
  // A client's limit covers thinking and answer, so it is not raised to make room for thinking.
  const available = max_tokens - ANSWER_TOKENS;
  return available < MIN_BUDGET ? 0 : Math.min(budget, available);
}

function hasSignedThinking(history: GenerateRequest["history"]): boolean {
  const last = history.findLast((message) => message.role === "assistant");
  return last?.thinking?.some(isOwnThinking) === true;
}

function toOptionParams({ options = {}, tools }: GenerateRequest): JsonObject {
  const { max_tokens, temperature, top_p, stop, json_output } = options;
  const choice = tools.length === 0 ? undefined : toToolChoice(options);
  return {
    ...(max_tokens === undefined ? {} : { max_tokens }),
    ...(temperature === undefined ? {} : { temperature: Math.min(temperature, 1) }),
    ...(top_p === undefined ? {} : { top_p }),
    ...(stop === undefined ? {} : { stop_sequences: stop }),
    ...(choice === undefined ? {} : { tool_choice: choice }),
    ...(json_output?.schema === undefined
      ? {}
      : { output_config: { format: { type: "json_schema", schema: json_output.schema } } }),
  };
}

function toToolChoice({ tool_choice, parallel_tool_calls }: LlmOptions): JsonObject | undefined {
  if (tool_choice === undefined && parallel_tool_calls !== false) return undefined;
  if (tool_choice === "none") return { type: "none" };
  const serial: JsonObject = parallel_tool_calls === false ? { disable_parallel_tool_use: true } : {};
  if (typeof tool_choice === "object") return { type: "tool", name: tool_choice.name, ...serial };
  return { type: tool_choice === "required" ? "any" : "auto", ...serial };
}

async function* toParts(
  stream: AsyncIterable<Anthropic.RawMessageStreamEvent>,
): AsyncGenerator<LlmPart, void, undefined> {
  let model: string | undefined;
  for await (const event of stream) {
    switch (event.type) {
      case "message_start":
        model = event.message.model;
        yield toMessageUsage(event.message.usage);
        break;
      case "content_block_start":
        if (event.content_block.type === "tool_use") {
          const { id, name } = event.content_block;
          yield { type: "tool_call", index: event.index, id, name };
        } else if (event.content_block.type === "text" && event.content_block.text !== "") {
          yield { type: "content", text: event.content_block.text };
        } else if (event.content_block.type === "redacted_thinking") {
          yield { type: "thinking_seal", seal: `${REDACTED_SEAL}${event.content_block.data}` };
        }
        break;
      case "content_block_delta":
        yield* toDeltaParts(event.index, event.delta);
        break;
      case "message_delta": {
        yield toMessageUsage(event.usage);
        const reason = event.delta.stop_reason;
        yield {
          type: "stop",
          ...(reason === null ? {} : { reason }),
          ...(model === undefined ? {} : { model }),
        };
        break;
      }
      case "message_stop":
        return;
      case "content_block_stop":
        break;
    }
  }
  throw brokenStream();
}

function* toDeltaParts(index: number, delta: Anthropic.RawContentBlockDelta): Generator<LlmPart> {
  if (delta.type === "text_delta") yield { type: "content", text: delta.text };
  else if (delta.type === "thinking_delta") yield { type: "thinking", text: delta.thinking };
  else if (delta.type === "signature_delta")
    yield { type: "thinking_seal", seal: `${SIGNATURE_SEAL}${delta.signature}` };
  else if (delta.type === "input_json_delta" && delta.partial_json !== "") {
    yield { type: "tool_call", index, args: delta.partial_json };
  }
}

/** The counts are running totals; the last event often contains only the output count. */
export function toMessageUsage(usage: {
  input_tokens?: number | null;
  cache_read_input_tokens?: number | null;
  cache_creation_input_tokens?: number | null;
  output_tokens?: number | null;
}): LlmPart {
  const counts: [string, number | null | undefined][] = [
    ["input_other", usage.input_tokens],
    ["input_cache_read", usage.cache_read_input_tokens],
    ["input_cache_creation", usage.cache_creation_input_tokens],
    ["output", usage.output_tokens],
  ];
  return {
    type: "usage",
    usage: Object.fromEntries(counts.filter(([, count]) => typeof count === "number")),
  };
}
