/**
 * OpenAI's Responses API: sends one request and converts its stream into parts. Nothing is stored at the vendor;
 * the tape holds the conversation.
 */
import {
  type AcceptedMedia,
  brokenStream,
  type GenerateRequest,
  type Json,
  LlmCallError,
  type LlmOptions,
  type LlmPart,
  type MediaPiece,
  mediaPieces,
  pieceText,
  type ThinkingBlock,
  textOf,
  vendorCode,
  vendorStream,
} from "@backplane/sdk/kernel";
import type { OpenAI } from "openai";
import { describeMedia, toDataUrl } from "./chat-messages.ts";
import type { ConnectOpenAi } from "./client.ts";
import { acceptedMediaOf, type OpenAiConfig } from "./config.ts";
import { chooseEffort, mergeParams } from "./params.ts";

type Item = OpenAI.Responses.ResponseInputItem;
type Event = OpenAI.Responses.ResponseStreamEvent;
type Response = OpenAI.Responses.Response;

export async function* streamResponse(
  connect: ConnectOpenAi,
  config: OpenAiConfig,
  request: GenerateRequest,
): AsyncGenerator<LlmPart, void, undefined> {
  const client = await connect();
  const body = buildBody(config, request);
  yield* toParts(vendorStream(request.signal, (signal) => client.responses.create(body, { signal })));
}

function buildBody(
  config: OpenAiConfig,
  request: GenerateRequest,
): OpenAI.Responses.ResponseCreateParamsStreaming {
  const { max_tokens, ...params } = mergeParams(config, request);
  const tools = request.tools.map((tool) => ({ type: "function" as const, strict: false, ...tool }));
  const effort = chooseEffort(config, request) as OpenAI.ReasoningEffort;
  return {
    ...(effort === null
      ? {}
      : {
          reasoning: { effort, summary: "auto" as const },
          ...(request.options === undefined ? {} : INCLUDE_REASONING),
        }),
    ...params,
    ...buildResponseOptions(request),
    ...(typeof max_tokens === "number" ? { max_output_tokens: max_tokens } : {}),
    model: request.model,
    ...(request.system === "" ? {} : { instructions: request.system }),
    input: (config.images ? request.history : describeMedia(request.history)).flatMap((message) =>
      toItems(message, acceptedMediaOf(config)),
    ),
    ...(tools.length === 0 ? {} : { tools }),
    store: false,
    stream: true,
  };
}

/**
 * A client of the model endpoints sends the reasoning back with its next request, because neither the vendor nor the
 * tape stores it.
 */
const INCLUDE_REASONING = { include: ["reasoning.encrypted_content" as const] };

function buildResponseOptions({
  options = {},
  tools,
}: GenerateRequest): Partial<OpenAI.Responses.ResponseCreateParamsStreaming> {
  const { tool_choice, parallel_tool_calls, json_output, top_p } = options;
  const choice =
    typeof tool_choice === "object" ? { type: "function" as const, name: tool_choice.name } : tool_choice;
  return {
    ...(top_p === undefined ? {} : { top_p }),
    ...(choice === undefined || tools.length === 0 ? {} : { tool_choice: choice }),
    ...(parallel_tool_calls === undefined || tools.length === 0 ? {} : { parallel_tool_calls }),
    ...(json_output === undefined ? {} : { text: { format: toTextFormat(json_output) } }),
  };
}

function toTextFormat({ name, schema, strict }: NonNullable<LlmOptions["json_output"]>) {
  if (schema === undefined) return { type: "json_object" as const };
  return { type: "json_schema" as const, name, schema, ...(strict === undefined ? {} : { strict }) };
}

function toItems(message: GenerateRequest["history"][number], accepted: AcceptedMedia): Item[] {
  switch (message.role) {
    case "user":
      return [
        {
          role: "user",
          content: mediaPieces(message.content, message.attachments ?? [], accepted).map(toInputPart),
        },
      ];
    case "tool":
      return [
        {
          type: "function_call_output",
          call_id: message.tool_call_id,
          output: toOutput(message.content, accepted),
        },
      ];
    case "assistant": {
      const content = textOf(message.content);
      const calls = (message.tool_calls ?? []).map(
        ({ id, name, args }): Item => ({
          type: "function_call",
          call_id: id,
          name,
          arguments: JSON.stringify(args),
        }),
      );
      const answer: Item[] = content === "" ? [] : [{ role: "assistant", content }];
      return [...(message.thinking ?? []).flatMap(toReasoningItems), ...answer, ...calls];
    }
  }
}

const SEAL_PREFIX = "openai:";

function toReasoningItems({ text, seal }: ThinkingBlock): Item[] {
  if (seal?.startsWith(SEAL_PREFIX) !== true) return [];
  const { id, encrypted_content } = JSON.parse(seal.slice(SEAL_PREFIX.length)) as {
    id: string;
    encrypted_content: string;
  };
  const summary = text === "" ? [] : [{ type: "summary_text" as const, text }];
  return [{ type: "reasoning", id, encrypted_content, summary }];
}

function toInputPart(piece: MediaPiece) {
  if (piece.type === "image")
    return { type: "input_image" as const, image_url: piece.url, detail: "auto" as const };
  if (piece.type === "document")
    return { type: "input_file" as const, filename: piece.name, file_data: toDataUrl(piece) };
  return { type: "input_text" as const, text: pieceText(piece) };
}

/** Returns a plain string if possible, because not every compatible server reads lists of parts. */
function toOutput(content: Json, accepted: AcceptedMedia) {
  const pieces = mediaPieces(content, [], accepted);
  return pieces.every((piece) => piece.type === "text") ? textOf(content) : pieces.map(toInputPart);
}

async function* toParts(stream: AsyncIterable<Event>): AsyncGenerator<LlmPart, void, undefined> {
  /** Calls whose arguments arrived in fragments; the final event of every other call contains them. */
  const fragmented = new Set<number>();
  for await (const event of stream) {
    const { type } = event;
    if (type === "response.output_text.delta" || type === "response.refusal.delta") {
      yield { type: "content", text: event.delta };
    } else if (type === "response.reasoning_summary_text.delta" || type === "response.reasoning_text.delta") {
      yield { type: "thinking", text: event.delta };
    } else if (type === "response.output_item.added" && event.item.type === "function_call") {
      const { call_id, name } = event.item;
      yield { type: "tool_call", index: event.output_index, id: call_id, name };
    } else if (type === "response.function_call_arguments.delta") {
      fragmented.add(event.output_index);
      yield { type: "tool_call", index: event.output_index, args: event.delta };
    } else if (type === "response.function_call_arguments.done") {
      const { output_index: index, arguments: args } = event;
      if (!fragmented.has(index)) yield { type: "tool_call", index, args };
    } else if (type === "response.output_item.done" && event.item.type === "reasoning") {
      const { id, encrypted_content } = event.item;
      if (encrypted_content)
        yield { type: "thinking_seal", seal: `${SEAL_PREFIX}${JSON.stringify({ id, encrypted_content })}` };
    } else if (type === "response.completed" || type === "response.incomplete") {
      yield* toEndingParts(event.response);
      return;
    } else if (type === "response.failed") {
      throw toStreamError(event.response.error);
    } else if (type === "error") {
      throw toStreamError(event);
    }
  }
  throw brokenStream();
}

export function* toEndingParts({ usage, status, incomplete_details, model }: Response): Generator<LlmPart> {
  if (usage) {
    const cached = usage.input_tokens_details?.cached_tokens ?? 0;
    const input_other = Math.max(0, usage.input_tokens - cached);
    yield { type: "usage", usage: { input_other, input_cache_read: cached, output: usage.output_tokens } };
  }
  const reason = incomplete_details?.reason ?? status;
  yield { type: "stop", model, ...(reason === undefined ? {} : { reason }) };
}

/** A failure inside the stream has a code instead of a status. */
function toStreamError(error: { code?: string | null; message?: string } | null): Error {
  const { code } = error ?? {};
  const text = `The provider reported an error${vendorCode([code])}.`;
  const status_code = code === "rate_limit_exceeded" ? 429 : code === "server_error" ? 500 : undefined;
  return new LlmCallError(
    status_code === undefined
      ? { kind: "other", message: text }
      : { kind: "status", message: text, status_code },
  );
}
