/** The protocol of OpenAI's Chat Completions API. */
import type { ChatMessage, Json, JsonObject, LlmOptions, LlmTool, TokenUsage } from "@backplane/contract";
import { isObject } from "@backplane/contract";
import type { LlmEndpointPart } from "@backplane/ports";
import { AnswerBlocks, type AnswerEnding, type BlockEvent, toAnswerEnding } from "./answer-blocks.ts";
import { openAiError } from "./openai-error.ts";
import {
  type AnswerContext,
  type EndpointError,
  type EndpointProtocol,
  type EndpointStream,
  formatSseEvent,
} from "./protocol.ts";
import {
  freeTextTool,
  imageBlock,
  listOf,
  mediaBlock,
  omitNullFields,
  readBoolean,
  readNumber,
  readStops,
  textOr,
  toArguments,
  unsupported,
} from "./read-request.ts";

const FINISH_REASONS: Record<AnswerEnding, string> = {
  end: "stop",
  stop_sequence: "stop",
  length: "length",
  tool: "tool_calls",
  filter: "content_filter",
};

export const chat: EndpointProtocol = {
  read(body, headers) {
    if (body.store === true)
      throw unsupported("store", "Completions are not stored. Leave out store, or set it to false.");
    return {
      protocol: "chat",
      model: textOr(body.model),
      stream: body.stream === true,
      messages: listOf(body.messages).map(toMessage),
      tools: listOf(body.tools).flatMap(toTool),
      options: toOptions(body),
      body,
      headers,
    };
  },
  stream: (context) => new ChatStream(context),
  answerBody(parts, context) {
    const native = parts.find((part) => part.type === "native");
    if (native !== undefined) return native.event;
    const answer = new AnswerBlocks(`call_${context.id}_`);
    let [message, ending, usage]: [JsonObject, AnswerEnding, JsonObject] = [{}, "end", {}];
    for (const part of parts) {
      if (part.type === "end") {
        message = buildMessage(answer);
        ending = toAnswerEnding(part.stop_reason, answer.has_calls);
        usage = chatUsage(part.usage);
      } else if (part.type !== "native") for (const _ of answer.add(part));
    }
    return {
      ...buildEnvelope(context, "chat.completion"),
      choices: [{ index: 0, message, logprobs: null, finish_reason: FINISH_REASONS[ending] }],
      usage,
    };
  },
  errorBody: openAiError,
};

class ChatStream implements EndpointStream {
  readonly heartbeat = ": alive\n\n";
  readonly #context: AnswerContext;
  readonly #blocks: AnswerBlocks;
  /** The position of each tool call among the tool calls, by the index of its block. */
  readonly #calls = new Map<number, number>();
  readonly #includes_usage: boolean;
  #has_begun = false;
  #is_native = false;

  constructor(context: AnswerContext) {
    this.#context = context;
    this.#blocks = new AnswerBlocks(`call_${context.id}_`);
    const { stream_options } = context.body;
    this.#includes_usage = isObject(stream_options) && stream_options.include_usage === true;
  }

  formatPart(part: LlmEndpointPart): string {
    if (part.type === "native") {
      this.#is_native = true;
      return this.#isUnwanted(part.event) ? "" : formatSseEvent(null, part.event);
    }
    let out = "";
    if (part.type === "end") {
      if (this.#is_native) return formatSseEvent(null, "[DONE]");
      out += this.#begin();
      const ending = toAnswerEnding(part.stop_reason, this.#blocks.has_calls);
      out += this.#chunk({}, FINISH_REASONS[ending]);
      if (this.#includes_usage)
        out += formatSseEvent(null, {
          ...buildEnvelope(this.#context, "chat.completion.chunk"),
          choices: [],
          usage: chatUsage(part.usage),
        });
      return out + formatSseEvent(null, "[DONE]");
    }
    out += this.#begin();
    for (const event of this.#blocks.add(part)) out += this.#event(event);
    return out;
  }

  formatError(error: EndpointError): string {
    return formatSseEvent(null, openAiError(error));
  }

  /** The provider is always asked for the usage; the client gets the usage chunk only if it requested one. */
  #isUnwanted({ choices, usage }: JsonObject): boolean {
    return !this.#includes_usage && Array.isArray(choices) && choices.length === 0 && isObject(usage);
  }

  #begin(): string {
    if (this.#has_begun) return "";
    this.#has_begun = true;
    return this.#chunk({ role: "assistant", content: "" });
  }

  #event(event: BlockEvent): string {
    const { block } = event;
    if (event.type === "close") return "";
    if (block.type === "tool_call") {
      const index = this.#calls.get(block.index) ?? this.#calls.size;
      this.#calls.set(block.index, index);
      const call: JsonObject =
        event.type === "open"
          ? { index, id: block.id, type: "function", function: { name: block.name, arguments: "" } }
          : { index, function: { arguments: event.text } };
      return this.#chunk({ tool_calls: [call] });
    }
    if (event.type === "open") return "";
    return this.#chunk(block.type === "text" ? { content: event.text } : { reasoning_content: event.text });
  }

  #chunk(delta: JsonObject, finish_reason: string | null = null): string {
    return formatSseEvent(null, {
      ...buildEnvelope(this.#context, "chat.completion.chunk"),
      choices: [{ index: 0, delta, logprobs: null, finish_reason }],
      ...(this.#includes_usage ? { usage: null } : {}),
    });
  }
}

function buildEnvelope({ id, created, model }: AnswerContext, object: string): JsonObject {
  return { id: `chatcmpl-${id}`, object, created, model };
}

function buildMessage({ blocks }: AnswerBlocks): JsonObject {
  const joined = (type: string) =>
    blocks
      .filter((block) => block.type === type)
      .map(({ text }) => text)
      .join("");
  const calls = blocks.filter(({ type }) => type === "tool_call");
  const [content, thinking] = [joined("text"), joined("thinking")];
  return {
    role: "assistant",
    content: content === "" && calls.length > 0 ? null : content,
    refusal: null,
    ...(thinking === "" ? {} : { reasoning_content: thinking }),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map(({ id, name, text }) => ({
            id,
            type: "function",
            function: { name, arguments: text === "" ? "{}" : text },
          })),
        }),
  };
}

function chatUsage({ input, input_cache_read, output, total }: TokenUsage): JsonObject {
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: total,
    prompt_tokens_details: { cached_tokens: input_cache_read },
  };
}

function toMessage(message: JsonObject): ChatMessage {
  const { role } = message;
  const content = toContent(message.content ?? null);
  if (role === "system" || role === "developer") return { role: "system", content };
  if (role === "user") return { role, content };
  if (role === "tool" || role === "function")
    return { role: "tool", tool_call_id: textOr(message.tool_call_id, textOr(message.name)), content };
  if (role !== "assistant")
    throw unsupported("messages", `The role ${JSON.stringify(role)} of a message is not supported.`);
  const tool_calls = listOf(message.tool_calls).map((call) => {
    const spec = isObject(call.function) ? call.function : isObject(call.custom) ? call.custom : {};
    return { id: textOr(call.id), name: textOr(spec.name), args: toArguments(spec.arguments ?? spec.input) };
  });
  return {
    role,
    content: content === "" ? textOr(message.refusal) : content,
    ...(tool_calls.length === 0 ? {} : { tool_calls }),
  };
}

/** Never copies a block unchanged: a block in the gateway's own format could refer to a stored artifact. */
function toContent(content: Json): Json {
  if (!Array.isArray(content)) return textOr(content);
  return listOf(content).map((part): JsonObject => {
    if (part.type === "text") return { type: "text", text: textOr(part.text) };
    if (part.type === "image_url") {
      const { url } = isObject(part.image_url) ? part.image_url : { url: part.image_url };
      return imageBlock(textOr(url));
    }
    if (part.type === "refusal") return { type: "text", text: textOr(part.refusal) };
    return (
      mediaBlock(part) ?? { type: "text", text: `[${textOr(part.type, "part")} that this model cannot read]` }
    );
  });
}

function toTool(tool: JsonObject): LlmTool[] {
  const spec = isObject(tool.function) ? tool.function : isObject(tool.custom) ? tool.custom : null;
  if (spec === null) return [];
  const [name, description] = [textOr(spec.name), textOr(spec.description)];
  if (tool.type === "custom") return [freeTextTool(name, description)];
  const parameters = isObject(spec.parameters) ? spec.parameters : { type: "object", properties: {} };
  return [{ name, description, parameters }];
}

function toOptions(body: JsonObject): LlmOptions {
  const { stop, tool_choice } = body;
  return omitNullFields({
    max_tokens: readNumber(body.max_completion_tokens) ?? readNumber(body.max_tokens),
    temperature: readNumber(body.temperature),
    top_p: readNumber(body.top_p),
    stop: readStops(stop, "stop"),
    tool_choice: toChoice(tool_choice),
    parallel_tool_calls: readBoolean(body.parallel_tool_calls),
    reasoning_effort: textOr(body.reasoning_effort) || undefined,
    json_output: toJsonOutput(body.response_format),
  });
}

function toChoice(choice: Json | undefined): LlmOptions["tool_choice"] {
  if (choice === "auto" || choice === "none" || choice === "required") return choice;
  if (!isObject(choice)) return undefined;
  const target = isObject(choice.function) ? choice.function : choice.custom;
  return isObject(target) ? { name: textOr(target.name) } : undefined;
}

function toJsonOutput(format: Json | undefined): LlmOptions["json_output"] {
  if (!isObject(format)) return undefined;
  if (format.type === "json_object") return { name: "answer" };
  if (format.type !== "json_schema" || !isObject(format.json_schema)) return undefined;
  const { name, schema, strict } = format.json_schema;
  return {
    name: textOr(name, "answer"),
    ...(isObject(schema) ? { schema } : {}),
    ...(typeof strict === "boolean" ? { strict } : {}),
  };
}
