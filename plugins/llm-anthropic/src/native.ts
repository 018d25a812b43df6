/**
 * Requests to the model endpoints in the Messages protocol. Only the model of the client's body is replaced, and the
 * API's events are returned unchanged. The usage and the stop reason are read from them.
 */
import type { Anthropic } from "@anthropic-ai/sdk";
import {
  brokenStream,
  type GenerateRequest,
  type JsonObject,
  type LlmPart,
  type NativeRequest,
  vendorStream,
} from "@backplane/sdk/kernel";
import type { ConnectAnthropic } from "./client.ts";
import { toMessageUsage } from "./stream-message.ts";

export async function* passMessagesRequest(
  connect: ConnectAnthropic,
  request: GenerateRequest,
  native: NativeRequest,
): AsyncGenerator<LlmPart, void, undefined> {
  const client = await connect();
  const { headers, stream } = native;
  const body = { ...native.body, model: request.model };
  const openStream = async (signal: AbortSignal) => {
    const options = { signal, headers };
    if (native.operation === "count_tokens")
      return asSingleEvent(
        await client.messages.countTokens(body as unknown as Anthropic.MessageCountTokensParams, options),
      );
    if (!stream)
      return asSingleEvent(
        await client.messages.create(body as unknown as Anthropic.MessageCreateParamsNonStreaming, options),
      );
    const streaming = { ...body, stream: true } as unknown as Anthropic.MessageCreateParamsStreaming;
    return (await client.messages.create(streaming, options)) as unknown as AsyncIterable<JsonObject>;
  };
  let ended = !stream || native.operation === "count_tokens";
  for await (const event of vendorStream(request.signal, openStream)) {
    yield { type: "native", event };
    if (event.type === "message_stop") ended = true;
    yield* toRecordedParts(event);
  }
  if (!ended) throw brokenStream();
}

/** Yields a response that is not a stream as a single event. */
async function* asSingleEvent(response: object): AsyncGenerator<JsonObject, void, undefined> {
  yield response as JsonObject;
}

interface RecordedFields {
  type?: string;
  model?: string;
  usage?: Anthropic.Usage;
  stop_reason?: string | null;
  message?: { model: string; usage: Anthropic.Usage };
  delta?: { stop_reason?: string | null };
}

function* toRecordedParts(event: RecordedFields): Generator<LlmPart> {
  const { type, message } = event;
  if (type === "message_start") {
    yield toMessageUsage(message!.usage);
    yield { type: "stop", model: message!.model };
  } else if (type === "message_delta" || type === "message") {
    if (event.usage !== undefined) yield toMessageUsage(event.usage);
    const reason = type === "message" ? event.stop_reason : event.delta?.stop_reason;
    yield {
      type: "stop",
      ...(reason ? { reason } : {}),
      ...(event.model === undefined ? {} : { model: event.model }),
    };
  }
}
