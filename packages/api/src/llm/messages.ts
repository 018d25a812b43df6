/** The protocol of Anthropic's Messages API. */
import {
  type ChatMessage,
  isObject,
  type Json,
  type JsonObject,
  type LlmOptions,
  type LlmTool,
  type ThinkingBlock,
  type TokenUsage,
  type ToolCallRequest,
} from "@backplane/contract";
import type { LlmEndpointPart } from "@backplane/ports";
import {
  type AnswerBlock,
  AnswerBlocks,
  type AnswerEnding,
  type BlockEvent,
  toAnswerEnding,
} from "./answer-blocks.ts";
import {
  type AnswerContext,
  type EndpointError,
  type EndpointProtocol,
  type EndpointStream,
  formatSseEvent,
} from "./protocol.ts";
import {
  imageBlock,
  listOf,
  mediaBlock,
  omitNullFields,
  readBoolean,
  readNumber,
  readStops,
  textOr,
  toArguments,
} from "./read-request.ts";
import { isWrappedSeal, unwrapSeal, wrapSeal } from "./seal.ts";

const SIGNATURE_PREFIX = "anthropic:";
const REDACTED_PREFIX = "anthropic-redacted:";

const STOP_REASONS: Record<AnswerEnding, string> = {
  end: "end_turn",
  length: "max_tokens",
  tool: "tool_use",
  filter: "refusal",
  stop_sequence: "stop_sequence",
};

export const messages: EndpointProtocol = {
  read: (body, headers) => ({
    protocol: "messages",
    model: textOr(body.model),
    stream: body.stream === true,
    messages: [...systemMessages(body.system), ...listOf(body.messages).flatMap(toMessages)],
    tools: listOf(body.tools).flatMap(toTool),
    options: toOptions(body),
    body: withoutForeignThinking(body),
    headers,
  }),
  stream: (context) => new MessageStream(context),
  answerBody(parts, context) {
    const native = parts.find((part) => part.type === "native");
    if (native !== undefined) return native.event;
    const answer = new AnswerBlocks(`toolu_${context.id}_`);
    let [ending, usage]: [AnswerEnding, JsonObject] = ["end", {}];
    for (const part of parts) {
      if (part.type === "end") {
        ending = toAnswerEnding(part.stop_reason, answer.has_calls);
        usage = messageUsage(part.usage);
      } else if (part.type !== "native") for (const _ of answer.add(part));
    }
    return {
      ...emptyMessage(context),
      content: answer.blocks.map(toContentBlock),
      stop_reason: STOP_REASONS[ending],
      usage,
    };
  },
  errorBody: anthropicError,
};

class MessageStream implements EndpointStream {
  readonly heartbeat = formatSseEvent("ping", { type: "ping" });
  readonly #context: AnswerContext;
  readonly #blocks: AnswerBlocks;
  #has_begun = false;
  #is_native = false;

  constructor(context: AnswerContext) {
    this.#context = context;
    this.#blocks = new AnswerBlocks(`toolu_${context.id}_`);
  }

  formatPart(part: LlmEndpointPart): string {
    if (part.type === "native") {
      this.#is_native = true;
      return formatSseEvent(textOr(part.event.type), part.event);
    }
    if (part.type !== "end") {
      let out = this.#begin();
      for (const event of this.#blocks.add(part)) out += formatBlockEvent(event);
      return out;
    }
    if (this.#is_native) return "";
    let out = this.#begin();
    for (const event of this.#blocks.close()) out += formatBlockEvent(event);
    const stop_reason = STOP_REASONS[toAnswerEnding(part.stop_reason, this.#blocks.has_calls)];
    const delta = { stop_reason, stop_sequence: null };
    out += formatSseEvent("message_delta", { type: "message_delta", delta, usage: messageUsage(part.usage) });
    return out + formatSseEvent("message_stop", { type: "message_stop" });
  }

  formatError(error: EndpointError): string {
    return formatSseEvent("error", anthropicError(error));
  }

  #begin(): string {
    if (this.#has_begun) return "";
    this.#has_begun = true;
    return formatSseEvent("message_start", { type: "message_start", message: emptyMessage(this.#context) });
  }
}

function emptyMessage({ id, model }: AnswerContext): JsonObject {
  return {
    id: `msg_${id}`,
    type: "message",
    role: "assistant",
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 0, output_tokens: 0 },
  };
}

function formatBlockEvent(event: BlockEvent): string {
  const { block } = event;
  const { index } = block;
  const send = (type: string, fields: JsonObject) => formatSseEvent(type, { type, index, ...fields });
  const redacted = block.seal?.startsWith(REDACTED_PREFIX) === true;
  switch (event.type) {
    case "open":
      return send("content_block_start", {
        content_block: redacted ? toContentBlock(block) : emptyBlock(block),
      });
    case "delta":
      return send("content_block_delta", { delta: toDelta(block, event.text) });
    case "close": {
      const signature =
        block.seal === null || redacted
          ? ""
          : send("content_block_delta", {
              delta: { type: "signature_delta", signature: wrapSeal(block.seal, SIGNATURE_PREFIX) },
            });
      return signature + send("content_block_stop", {});
    }
  }
}

function emptyBlock({ type, id, name }: AnswerBlock): JsonObject {
  if (type === "text") return { type: "text", text: "" };
  if (type === "thinking") return { type: "thinking", thinking: "", signature: "" };
  return { type: "tool_use", id, name, input: {} };
}

function toDelta({ type }: AnswerBlock, text: string): JsonObject {
  if (type === "text") return { type: "text_delta", text };
  if (type === "thinking") return { type: "thinking_delta", thinking: text };
  return { type: "input_json_delta", partial_json: text };
}

function toContentBlock({ type, id, name, text, seal }: AnswerBlock): JsonObject {
  if (type === "text") return { type: "text", text };
  if (type === "tool_call") return { type: "tool_use", id, name, input: toArguments(text) };
  if (seal?.startsWith(REDACTED_PREFIX))
    return { type: "redacted_thinking", data: seal.slice(REDACTED_PREFIX.length) };
  return {
    type: "thinking",
    thinking: text,
    signature: seal === null ? "" : wrapSeal(seal, SIGNATURE_PREFIX),
  };
}

function messageUsage(usage: TokenUsage): JsonObject {
  return {
    input_tokens: usage.input_other,
    cache_creation_input_tokens: usage.input_cache_creation,
    cache_read_input_tokens: usage.input_cache_read,
    output_tokens: usage.output,
  };
}

function systemMessages(system: Json | undefined): ChatMessage[] {
  if (typeof system === "string") return [{ role: "system", content: system }];
  return listOf(system).map(({ text }) => ({ role: "system", content: textOr(text) }));
}

/** Tool results become separate messages, which precede the user's text. */
function toMessages({ role, content = "" }: JsonObject): ChatMessage[] {
  if (role === "system") return systemMessages(content);
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : listOf(content);
  if (role === "assistant") return [assistantMessage(blocks)];
  const results = blocks.flatMap((block): ChatMessage[] =>
    block.type === "tool_result"
      ? [
          {
            role: "tool",
            tool_call_id: textOr(block.tool_use_id),
            content: resultContent(block.content),
            ...(block.is_error === true ? { is_error: true } : {}),
          },
        ]
      : [],
  );
  const user_blocks = blocks.filter(({ type }) => type !== "tool_result").map(toBlock);
  return user_blocks.length === 0 ? results : [...results, { role: "user", content: user_blocks }];
}

function assistantMessage(blocks: readonly JsonObject[]): ChatMessage {
  const tool_calls: ToolCallRequest[] = [];
  const thinking: ThinkingBlock[] = [];
  const content: JsonObject[] = [];
  for (const block of blocks) {
    if (block.type === "tool_use")
      tool_calls.push({ id: textOr(block.id), name: textOr(block.name), args: toArguments(block.input) });
    else if (block.type === "thinking") thinking.push(toThinkingBlock(block));
    else if (block.type === "redacted_thinking")
      thinking.push({ text: "", seal: `${REDACTED_PREFIX}${textOr(block.data)}` });
    else if (block.type === "text") content.push({ type: "text", text: textOr(block.text) });
  }
  return {
    role: "assistant",
    content,
    ...(tool_calls.length === 0 ? {} : { tool_calls }),
    ...(thinking.length === 0 ? {} : { thinking }),
  };
}

function toThinkingBlock({ thinking, signature }: JsonObject): ThinkingBlock {
  const [text, proof] = [textOr(thinking), textOr(signature)];
  return proof === "" ? { text } : { text, seal: unwrapSeal(proof, SIGNATURE_PREFIX) };
}

function resultContent(content: Json | undefined): Json {
  return Array.isArray(content) ? listOf(content).map(toBlock) : (content ?? "");
}

function toBlock(block: JsonObject): JsonObject {
  const { type, source } = block;
  if (type === "text") return { type: "text", text: textOr(block.text) };
  if (type === "image" && isObject(source)) {
    if (source.type === "base64")
      return { type: "image", data: textOr(source.data), mimeType: textOr(source.media_type) };
    return imageBlock(textOr(source.url));
  }
  if (type === "document" && isObject(source) && source.type === "text")
    return { type: "text", text: textOr(source.data) };
  return (
    mediaBlock(block) ?? { type: "text", text: `[${textOr(type, "block")} that this model cannot read]` }
  );
}

/** Omits tools that the vendor runs itself: only the vendor has them, and it gets the request untranslated. */
function toTool(tool: JsonObject): LlmTool[] {
  if (!isObject(tool.input_schema)) return [];
  return [{ name: textOr(tool.name), description: textOr(tool.description), parameters: tool.input_schema }];
}

function toOptions(body: JsonObject): LlmOptions {
  const { stop_sequences, tool_choice, output_config } = body;
  const choice = isObject(tool_choice) ? tool_choice : {};
  const serial = readBoolean(choice.disable_parallel_tool_use);
  const config = isObject(output_config) ? output_config : {};
  return omitNullFields({
    max_tokens: readNumber(body.max_tokens),
    temperature: readNumber(body.temperature),
    top_p: readNumber(body.top_p),
    stop: readStops(stop_sequences, "stop_sequences"),
    tool_choice: toChoice(choice),
    parallel_tool_calls: serial === undefined ? undefined : !serial,
    reasoning_effort: chooseEffort(body.thinking, config.effort),
    json_output:
      isObject(config.format) && isObject(config.format.schema)
        ? { name: "answer", schema: config.format.schema }
        : undefined,
  });
}

function toChoice({ type, name }: JsonObject): LlmOptions["tool_choice"] {
  if (type === "tool") return { name: textOr(name) };
  if (type === "any") return "required";
  return type === "auto" || type === "none" ? type : undefined;
}

/** Other vendors accept an effort instead of a budget. */
function chooseEffort(thinking: Json | undefined, effort: Json | undefined): string | undefined {
  if (!isObject(thinking) || thinking.type === "disabled") return undefined;
  const budget = readNumber(thinking.budget_tokens);
  if (budget === undefined) return effort === "max" ? "high" : textOr(effort, "medium");
  return budget <= 2_048 ? "low" : budget <= 16_384 ? "medium" : "high";
}

/** The vendor refuses a conversation with thinking that another vendor's model wrote. */
function withoutForeignThinking(body: JsonObject): JsonObject {
  // The thinking of a model that attaches no proof has an empty signature.
  const isForeign = ({ type, signature }: JsonObject) =>
    type === "thinking" && (signature === "" || isWrappedSeal(signature));
  const list = listOf(body.messages);
  if (!list.some(({ content }) => listOf(content).some(isForeign))) return body;
  return {
    ...body,
    messages: list.flatMap((each) => {
      if (!Array.isArray(each.content)) return [each];
      const content = listOf(each.content).filter((block) => !isForeign(block));
      return content.length === 0 ? [] : [{ ...each, content }];
    }),
  };
}

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  504: "timeout_error",
  529: "overloaded_error",
};

function anthropicError({ status, message }: EndpointError): JsonObject {
  const type = ERROR_TYPES[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
  return { type: "error", error: { type, message } };
}
