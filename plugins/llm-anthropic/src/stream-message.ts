/** Sends one Messages request and converts its stream into parts. */
import type { Anthropic } from "@anthropic-ai/sdk";
import {
  brokenStream,
  type GenerateRequest,
  type JsonObject,
  type LlmPart,
  vendorStream,
} from "@backplane/sdk/kernel";
import type { AnthropicClient } from "./client.ts";
import type { AnthropicConfig } from "./config.ts";
import { markLastTurn, toTurns } from "./turns.ts";

const CACHED = { cache_control: { type: "ephemeral" } } as const;
/** Fields that define the request itself cannot be overridden by parameters. */
const RESERVED_FIELDS = new Set(["model", "messages", "system", "tools", "stream"]);
/** Tokens for the answer in addition to the thinking budget. */
const ANSWER_TOKENS = 1_024;

export async function* streamMessage(
  connect: AnthropicClient,
  config: AnthropicConfig,
  request: GenerateRequest,
): AsyncGenerator<LlmPart, void, undefined> {
  const client = await connect();
  const body = bodyOf(config, request);
  yield* partsOf(vendorStream(request.signal, (signal) => client.messages.create(body, { signal })));
}

function bodyOf(config: AnthropicConfig, request: GenerateRequest): Anthropic.MessageCreateParamsStreaming {
  const { system, history } = request;
  const mark = config.cache ? CACHED : {};
  const messages = toTurns(history);
  if (config.cache) markLastTurn(messages);
  const tools = request.tools.map(({ name, description, parameters }, at, { length }) => ({
    name,
    description,
    input_schema: parameters as Anthropic.Tool.InputSchema,
    ...(at === length - 1 ? mark : {}),
  }));
  return {
    ...sampling(config, request),
    model: request.model,
    ...(system === "" ? {} : { system: [{ type: "text", text: system, ...mark }] }),
    messages,
    ...(tools.length === 0 ? {} : { tools }),
    stream: true,
  };
}

function sampling(config: AnthropicConfig, { params, history }: GenerateRequest) {
  const own: JsonObject = Object.fromEntries(
    Object.entries(params).filter(([key]) => !RESERVED_FIELDS.has(key)),
  );
  const max_tokens = typeof own.max_tokens === "number" ? own.max_tokens : config.max_tokens;
  const budget = config.thinking_budget;
  // In the middle of a turn the API requires the signed thinking blocks that began the turn. The tape does
  // not keep them, so thinking is enabled for messages and disabled for tool results.
  if (budget > 0 && history.at(-1)?.role !== "tool") {
    const { temperature: _, ...rest } = own;
    return {
      thinking: { type: "enabled" as const, budget_tokens: budget },
      ...rest,
      max_tokens: Math.max(max_tokens, budget + ANSWER_TOKENS),
    };
  }
  return { ...(config.temperature === null ? {} : { temperature: config.temperature }), ...own, max_tokens };
}

async function* partsOf(
  stream: AsyncIterable<Anthropic.RawMessageStreamEvent>,
): AsyncGenerator<LlmPart, void, undefined> {
  let model: string | undefined;
  for await (const event of stream) {
    switch (event.type) {
      case "message_start":
        model = event.message.model;
        yield usagePart(event.message.usage);
        break;
      case "content_block_start":
        if (event.content_block.type === "tool_use") {
          const { id, name } = event.content_block;
          yield { type: "tool_call", index: event.index, id, name };
        } else if (event.content_block.type === "text" && event.content_block.text !== "") {
          yield { type: "content", text: event.content_block.text };
        }
        break;
      case "content_block_delta":
        yield* deltaParts(event.index, event.delta);
        break;
      case "message_delta": {
        yield usagePart(event.usage);
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

function* deltaParts(index: number, delta: Anthropic.RawContentBlockDelta): Generator<LlmPart> {
  if (delta.type === "text_delta") yield { type: "content", text: delta.text };
  else if (delta.type === "thinking_delta") yield { type: "thinking", text: delta.thinking };
  else if (delta.type === "input_json_delta" && delta.partial_json !== "") {
    yield { type: "tool_call", index, args: delta.partial_json };
  }
}

/** Running totals; the last message often contains only the output count. */
function usagePart(usage: {
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
