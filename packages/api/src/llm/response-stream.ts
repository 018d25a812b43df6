/** Writes translated answers in the format of OpenAI's Responses API, as a stream or as a whole. */
import { isObject, type JsonObject, type TokenUsage } from "@backplane/contract";
import type { LlmEndpointPart } from "@backplane/ports";
import {
  type AnswerBlock,
  AnswerBlocks,
  type AnswerEnding,
  type BlockEvent,
  toAnswerEnding,
} from "./answer-blocks.ts";
import { openAiCode } from "./openai-error.ts";
import { type AnswerContext, type EndpointError, type EndpointStream, formatSseEvent } from "./protocol.ts";
import { listOf, textOr, toArguments } from "./read-request.ts";
import { wrapSeal } from "./seal.ts";

export class ResponseStream implements EndpointStream {
  readonly heartbeat = ": alive\n\n";
  readonly #context: AnswerContext;
  readonly #items: ResponseItems;
  readonly #blocks: AnswerBlocks;
  #next_sequence = 0;
  #is_native = false;

  constructor(context: AnswerContext) {
    this.#context = context;
    this.#items = new ResponseItems(context);
    this.#blocks = new AnswerBlocks(`call_${context.id}_`);
  }

  formatPart(part: LlmEndpointPart): string {
    if (part.type === "native") {
      this.#is_native = true;
      return formatSseEvent(textOr(part.event.type), part.event);
    }
    if (part.type !== "end") {
      let out = this.#begin();
      for (const event of this.#blocks.add(part)) out += this.#event(event);
      return out;
    }
    if (this.#is_native) return "";
    let out = this.#begin();
    for (const event of this.#blocks.close()) out += this.#event(event);
    const response = finalResponse(this.#context, this.#items, this.#blocks, part);
    return out + this.#send(`response.${textOr(response.status)}`, { response });
  }

  formatError(error: EndpointError): string {
    const failure = { code: openAiCode(error), message: error.message };
    const response = { ...buildResponse(this.#context, "failed", []), error: failure };
    return this.#send("response.failed", { response });
  }

  #begin(): string {
    if (this.#next_sequence > 0) return "";
    const response = buildResponse(this.#context, "in_progress", []);
    return this.#send("response.created", { response }) + this.#send("response.in_progress", { response });
  }

  #send(type: string, fields: JsonObject): string {
    return formatSseEvent(type, { type, sequence_number: this.#next_sequence++, ...fields });
  }

  #event(event: BlockEvent): string {
    const { block } = event;
    const output_index = block.index;
    const item_id = this.#items.idOf(block);
    const position = { item_id, output_index };
    const item = (done: boolean) => this.#items.toItem(block, done);
    if (event.type === "open") {
      const added = this.#send("response.output_item.added", { output_index, item: item(false) });
      if (block.type === "text") {
        const part = { type: "output_text", text: "", annotations: [], logprobs: [] };
        return added + this.#send("response.content_part.added", { ...position, content_index: 0, part });
      }
      if (block.type === "tool_call" || block.seal !== null) return added;
      const part = { type: "summary_text", text: "" };
      return (
        added + this.#send("response.reasoning_summary_part.added", { ...position, summary_index: 0, part })
      );
    }
    if (event.type === "delta") {
      const delta = event.text;
      if (block.type === "text")
        return this.#send("response.output_text.delta", {
          ...position,
          content_index: 0,
          delta,
          logprobs: [],
        });
      if (block.type === "thinking")
        return this.#send("response.reasoning_summary_text.delta", { ...position, summary_index: 0, delta });
      // The text of a free-text tool is inside the JSON arguments, so it is known only when they are complete.
      if (this.#items.isCustom(block)) return "";
      return this.#send("response.function_call_arguments.delta", { ...position, delta });
    }
    return (
      this.#closeEvents(block, position) +
      this.#send("response.output_item.done", { output_index, item: item(true) })
    );
  }

  #closeEvents(block: AnswerBlock, position: JsonObject): string {
    const { text } = block;
    if (block.type === "text") {
      const part = { type: "output_text", text, annotations: [], logprobs: [] };
      return (
        this.#send("response.output_text.done", { ...position, content_index: 0, text, logprobs: [] }) +
        this.#send("response.content_part.done", { ...position, content_index: 0, part })
      );
    }
    if (block.type === "thinking") {
      if (text === "") return "";
      const part = { type: "summary_text", text };
      return (
        this.#send("response.reasoning_summary_text.done", { ...position, summary_index: 0, text }) +
        this.#send("response.reasoning_summary_part.done", { ...position, summary_index: 0, part })
      );
    }
    if (this.#items.isCustom(block)) {
      const input = freeText(block);
      return (
        this.#send("response.custom_tool_call_input.delta", { ...position, delta: input }) +
        this.#send("response.custom_tool_call_input.done", { ...position, input })
      );
    }
    const args = text === "" ? "{}" : text;
    return this.#send("response.function_call_arguments.done", {
      ...position,
      name: block.name,
      arguments: args,
    });
  }
}

export function buildAnswerBody(parts: readonly LlmEndpointPart[], context: AnswerContext): JsonObject {
  const native = parts.find((part) => part.type === "native");
  if (native !== undefined) return native.event;
  const answer = new AnswerBlocks(`call_${context.id}_`);
  for (const part of parts) {
    if (part.type === "end") return finalResponse(context, new ResponseItems(context), answer, part);
    if (part.type !== "native") for (const _ of answer.add(part));
  }
  return buildResponse(context, "incomplete", []);
}

/** The name under which a model sees a tool of a namespace, for providers without namespaces. */
export function joinName(namespace: string, name: string): string {
  if (namespace === "") return name;
  return namespace.endsWith("__") ? `${namespace}${name}` : `${namespace}__${name}`;
}

/** Converts the blocks of an answer to the items of a response. */
class ResponseItems {
  readonly #context: AnswerContext;
  readonly #custom: ReadonlySet<string>;
  /** The names that the client gave to tools of namespaces, by the names that the model sees. */
  readonly #namespaced: ReadonlyMap<string, { namespace: string; name: string }>;

  constructor(context: AnswerContext) {
    this.#context = context;
    const custom = listOf(context.body.tools).filter(({ type }) => type === "custom");
    this.#custom = new Set(custom.map(({ name }) => textOr(name)));
    const namespaces = listOf(context.body.tools).filter(({ type }) => type === "namespace");
    this.#namespaced = new Map(
      namespaces.flatMap(({ name, tools }) =>
        listOf(tools).map((tool) => {
          const client_name = { namespace: textOr(name), name: textOr(tool.name) };
          return [joinName(client_name.namespace, client_name.name), client_name];
        }),
      ),
    );
  }

  isCustom({ type, name }: AnswerBlock): boolean {
    return type === "tool_call" && this.#custom.has(name);
  }

  idOf(block: AnswerBlock): string {
    const kind =
      block.type === "text" ? "msg" : block.type === "thinking" ? "rs" : this.isCustom(block) ? "ctc" : "fc";
    return `${kind}_${this.#context.id}_${block.index}`;
  }

  toItem(block: AnswerBlock, done: boolean): JsonObject {
    const { type, text, seal, name } = block;
    const id = this.idOf(block);
    const status = done ? "completed" : "in_progress";
    if (type === "text") {
      const content = done ? [{ type: "output_text", text, annotations: [], logprobs: [] }] : [];
      return { id, type: "message", status, role: "assistant", content };
    }
    if (type === "thinking")
      return {
        id,
        type: "reasoning",
        summary: done && text !== "" ? [{ type: "summary_text", text }] : [],
        ...(seal === null ? {} : { encrypted_content: wrapSeal(seal, null) }),
      };
    const call_id = block.id;
    if (this.isCustom(block))
      return { id, type: "custom_tool_call", status, call_id, name, input: done ? freeText(block) : "" };
    const args = done && text === "" ? "{}" : text;
    const client_name = this.#namespaced.get(name) ?? { name };
    return { id, type: "function_call", status, call_id, ...client_name, arguments: done ? args : "" };
  }
}

function freeText({ text }: AnswerBlock): string {
  return textOr(toArguments(text).input);
}

type AnswerEnd = Extract<LlmEndpointPart, { type: "end" }>;

function finalResponse(
  context: AnswerContext,
  items: ResponseItems,
  answer: AnswerBlocks,
  { stop_reason, usage }: AnswerEnd,
): JsonObject {
  const ending = toAnswerEnding(stop_reason, answer.has_calls);
  const reason = INCOMPLETE[ending];
  const output = answer.blocks.map((block) => items.toItem(block, true));
  return {
    ...buildResponse(context, reason === undefined ? "completed" : "incomplete", output),
    incomplete_details: reason === undefined ? null : { reason },
    usage: responseUsage(usage),
  };
}

const INCOMPLETE: Partial<Record<AnswerEnding, string>> = {
  length: "max_output_tokens",
  filter: "content_filter",
};

/** The response repeats the settings of its request. */
function buildResponse(
  { id, created, model, body }: AnswerContext,
  status: string,
  output: JsonObject[],
): JsonObject {
  const { reasoning, text } = body;
  return {
    id: `resp_${id}`,
    object: "response",
    created_at: created,
    status,
    background: false,
    error: null,
    incomplete_details: null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    metadata: body.metadata ?? {},
    model,
    output,
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: null,
    reasoning: isObject(reasoning) ? reasoning : { effort: null, summary: null },
    store: false,
    temperature: body.temperature ?? null,
    text: isObject(text) ? text : { format: { type: "text" } },
    tool_choice: body.tool_choice ?? "auto",
    tools: body.tools ?? [],
    top_p: body.top_p ?? null,
    truncation: "disabled",
    usage: null,
    user: null,
  };
}

function responseUsage({ input, input_cache_read, output, total }: TokenUsage): JsonObject {
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: input_cache_read },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: total,
  };
}
