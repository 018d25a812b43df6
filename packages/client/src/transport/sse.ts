import { createParser } from "eventsource-parser";

export interface SseMessage {
  id: string | null;
  event: string;
  data: string;
}

/** The messages of an event stream. Comments, which the gateway sends as heartbeats, are skipped. */
export async function* readSse(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<SseMessage> {
  const decoder = new TextDecoder();
  const parsed: SseMessage[] = [];
  const parser = createParser({
    onEvent: ({ id, event, data }) => void parsed.push({ id: id ?? null, event: event ?? "message", data }),
  });
  for await (const chunk of bytes) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* parsed.splice(0);
  }
}
