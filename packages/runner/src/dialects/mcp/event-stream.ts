/**
 * One event stream of an MCP server across all responses that carry it: the request it answers, its position, and
 * the delay before it is resumed.
 */
import type { IncomingMessage } from "node:http";
import { BackplaneError, isObject, type Json } from "@backplane/contract";
import { parseJson } from "@backplane/wire";
import type { RunnerLimits } from "../../ports/settings.ts";
import { createSseReader } from "./sse-reader.ts";
import type { TransportEvents } from "./transport.ts";

export interface EventStream {
  /** The request that it answers. Null for the stream of server messages. */
  id: number | null;
  last_event_id: string | null;
  retry_ms: number | null;
  tries: number;
  answered: boolean;
}

export type StreamEvents = Pick<TransportEvents, "receive" | "reportViolation">;

const RETRY_MS = 1_000;
/** A server that requests a delay of 0 must not keep the gateway busy. */
const MIN_RETRY_MS = 100;
const MAX_RETRY_MS = 30_000;
const MAX_TRIES = 5;

/** Reads until the stream ends or has delivered its answer. Throws if a limit is exceeded or the answer is invalid. */
export async function followStream(
  response: IncomingMessage,
  stream: EventStream,
  limits: RunnerLimits,
  events: StreamEvents,
): Promise<void> {
  const reader = createSseReader(limits.message_bytes, {
    data: (text) => readEvent(text, stream, limits, events),
    id: (value) => {
      stream.last_event_id = value;
    },
    retry: (ms) => {
      stream.retry_ms = Math.min(Math.max(ms, MIN_RETRY_MS), MAX_RETRY_MS);
    },
  });
  try {
    for await (const chunk of response) {
      stream.tries = 0;
      reader.push(chunk as Buffer);
      if (stream.answered) break;
    }
  } catch (error) {
    if (error instanceof BackplaneError) throw error;
    // A broken stream counts as one that ended early.
  }
}

function readEvent(text: string, stream: EventStream, limits: RunnerLimits, events: StreamEvents): void {
  let value: Json;
  try {
    value = parseJson(Buffer.from(text), limits.json_depth);
  } catch (error) {
    const { details, message } = error as BackplaneError;
    if (stream.id !== null && details?.rpc_id === stream.id) {
      throw new BackplaneError("malformed_response", `The MCP server sent an invalid response: ${message}`);
    }
    events.reportViolation("not_json");
    return;
  }
  for (const message of Array.isArray(value) ? value : [value]) {
    if (!isObject(message)) {
      events.reportViolation("message_invalid");
      continue;
    }
    if (stream.id !== null && message.method === undefined && message.id === stream.id)
      stream.answered = true;
    events.receive(message, stream.id);
  }
}

/** True if the server sent event ids and the limit of failed attempts is not reached. */
export function canResume({ last_event_id, tries }: EventStream): boolean {
  return last_event_id !== null && tries < MAX_TRIES;
}

/** The delay before the next attempt: the value that the server requested, or exponential backoff. */
export function retryDelayMs({ retry_ms, tries }: EventStream): number {
  return retry_ms ?? Math.min(RETRY_MS * 2 ** Math.max(0, tries - 1), MAX_RETRY_MS);
}

export function createStream(id: number | null): EventStream {
  return { id, last_event_id: null, retry_ms: null, tries: 0, answered: false };
}

export function isStream(response: IncomingMessage): boolean {
  return (response.headers["content-type"] ?? "").toLowerCase().startsWith("text/event-stream");
}
