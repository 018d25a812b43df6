/**
 * Requests to the model endpoints in OpenAI's own protocols. Only the model, `stream`, `store` and the usage option of
 * the client's body are replaced, and the server's events are returned unchanged. The usage and the finish reason are
 * read from them.
 */
import {
  brokenStream,
  type GenerateRequest,
  type JsonObject,
  type LlmPart,
  type NativeRequest,
  vendorStream,
} from "@backplane/sdk/kernel";
import type { OpenAI } from "openai";
import { type LooseUsage, refusesUsage, toChatUsage } from "./chat.ts";
import type { ConnectOpenAi } from "./client.ts";
import { isOpenAiUrl, type OpenAiConfig } from "./config.ts";
import { toEndingParts } from "./responses.ts";

/** OpenAI itself supports both protocols, a compatible server only the configured one. */
export function acceptsNative(config: OpenAiConfig, { protocol }: NativeRequest): boolean {
  return protocol === config.api || (protocol !== "messages" && isOpenAiUrl(config.base_url));
}

export function passOpenAiRequest(
  connect: ConnectOpenAi,
  request: GenerateRequest,
  native: NativeRequest,
): AsyncIterable<LlmPart> {
  const body = { ...native.body, model: request.model, stream: native.stream };
  if (native.protocol === "responses") {
    const params = { ...body, store: false } as OpenAI.Responses.ResponseCreateParams;
    return responseParts(
      vendorStream(request.signal, async (signal) =>
        toEvents(await (await connect()).responses.create(params, { signal })),
      ),
    );
  }
  return chatParts(
    vendorStream(request.signal, async (signal) =>
      toEvents(await openChat(await connect(), body, native, signal)),
    ),
  );
}

function openChat(client: OpenAI, body: JsonObject, { stream }: NativeRequest, signal: AbortSignal) {
  const create = (params: JsonObject) =>
    client.chat.completions.create(params as unknown as OpenAI.ChatCompletionCreateParams, { signal });
  if (!stream) return create(body);
  // The record of the call needs the usage, whether or not the client requests it.
  const { stream_options, ...plain } = body;
  const { include_usage: _, ...other_options } = (stream_options ?? {}) as JsonObject;
  return create({ ...plain, stream_options: { ...other_options, include_usage: true } }).catch(
    (error: unknown) => {
      if (!refusesUsage(error)) throw error;
      // The other options are kept: if they are invalid, the client must get an error and not an answer without usage.
      return create(
        Object.keys(other_options).length === 0 ? plain : { ...plain, stream_options: other_options },
      );
    },
  );
}

/**
 * Returns a stream unchanged, because every generator around it delays the first event (benchmark llm.proxy), and a
 * response that is not a stream as a single event.
 */
function toEvents(response: object): AsyncIterable<JsonObject> {
  if (Symbol.asyncIterator in response) return response as AsyncIterable<JsonObject>;
  return asSingleEvent(response as JsonObject);
}

async function* asSingleEvent(event: JsonObject): AsyncGenerator<JsonObject, void, undefined> {
  yield event;
}

async function* chatParts(stream: AsyncIterable<JsonObject>): AsyncGenerator<LlmPart, void, undefined> {
  let ended = false;
  for await (const event of stream) {
    yield { type: "native", event };
    const { usage, choices, model } = event as {
      usage?: LooseUsage | null;
      choices?: { finish_reason?: string | null }[];
      model?: string;
    };
    if (usage) yield toChatUsage(usage);
    const reason = choices?.find(({ finish_reason }) => finish_reason)?.finish_reason;
    if (!reason) continue;
    ended = true;
    yield { type: "stop", reason, ...(model === undefined ? {} : { model }) };
  }
  if (!ended) throw brokenStream();
}

const FINAL_EVENTS = new Set(["response.completed", "response.incomplete", "response.failed"]);

async function* responseParts(stream: AsyncIterable<JsonObject>): AsyncGenerator<LlmPart, void, undefined> {
  let ended = false;
  for await (const event of stream) {
    yield { type: "native", event };
    const is_response = event.object === "response";
    if (!is_response && !FINAL_EVENTS.has(event.type as string)) continue;
    ended = true;
    yield* toEndingParts((is_response ? event : event.response) as unknown as OpenAI.Responses.Response);
  }
  if (!ended) throw brokenStream();
}
