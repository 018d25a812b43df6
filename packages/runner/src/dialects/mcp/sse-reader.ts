/**
 * Reads a server-sent event stream as it arrives, with bounded memory. An id is reported only with its complete event: a
 * stream that is cut off inside an event has to be resumed before it.
 */
import { BackplaneError } from "@backplane/contract";
import { createParser } from "eventsource-parser";

export interface SseEvents {
  /** The data of an event of type `message`; never empty. */
  data(text: string): void;
  /** The last event id, at which the stream can be resumed. */
  id(value: string): void;
  /** The reconnection delay that the server requests. */
  retry(ms: number): void;
}

export interface SseReader {
  /** Throws `frame_too_large`. */
  push(chunk: Buffer): void;
}

/** `limit` is the maximum number of characters in one event. */
export function createSseReader(limit: number, events: SseEvents): SseReader {
  const decoder = new TextDecoder();
  const parser = createParser({
    maxBufferSize: limit,
    onEvent({ id, event = "message", data }) {
      // The parser limits only what it keeps between chunks.
      if (data.length > limit) throw tooLarge(limit);
      if (id !== undefined) events.id(id);
      if (event === "message" && data !== "") events.data(data);
    },
    onRetry: (ms) => events.retry(ms),
    onError({ type }) {
      if (type === "max-buffer-size-exceeded") throw tooLarge(limit);
    },
  });
  return { push: (chunk) => parser.feed(decoder.decode(chunk, { stream: true })) };
}

function tooLarge(limit: number): BackplaneError {
  return new BackplaneError(
    "frame_too_large",
    `An event of the MCP server exceeds the limit of ${limit} characters.`,
    {
      details: { limit },
    },
  );
}
