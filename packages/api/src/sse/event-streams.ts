/**
 * Server-sent events. A stream ends when its source ends, when the client disconnects, when its delegated token
 * expires or when the server closes. Each aborts the same signal, so that no source outlives its reader.
 */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { BackplaneError } from "@backplane/contract";
import type { Clock, Timer } from "@backplane/ports";
import type { FastifyReply, FastifyRequest } from "fastify";
import { watchCredential } from "../auth/watch-credential.ts";
import type { RouteResponse } from "../http/route.ts";

const HEARTBEAT_MS = 15_000;

export interface SseItem {
  id?: number;
  event?: string;
  data: string;
}

export interface EventStreams {
  /**
   * Takes over the reply and writes each item of `source`. A failure after the headers were sent becomes an `error`
   * item.
   */
  stream(reply: FastifyReply, source: (stop: AbortSignal) => AsyncIterable<SseItem>): Promise<RouteResponse>;
  /** Ends every open stream. Streams opened later end immediately. */
  close(): void;
}

export function createEventStreams(deps: {
  clock: Clock;
  /** Streams above this number are refused: each holds a socket that ordinary requests need too. */
  max: number;
  describe(error: unknown, request_id: string): string;
  count(change: 1 | -1): void;
  isCredentialValid(request: FastifyRequest): Promise<boolean>;
}): EventStreams {
  const open_streams = new Set<AbortController>();
  let closed = false;

  return {
    async stream(reply, source) {
      if (open_streams.size >= deps.max)
        throw new BackplaneError("request.overloaded", "Too many event streams are open.", {
          details: { retry_after_ms: 5_000 },
        });
      const raw = reply.raw;
      const stop = new AbortController();
      const abort = () => stop.abort();
      open_streams.add(stop);
      deps.count(1);
      raw.once("close", abort);
      if (closed || raw.destroyed) abort();
      const heartbeat = startHeartbeat(deps.clock, raw);
      const delegated = reply.request.caller?.delegation !== undefined;
      const credential = delegated
        ? watchCredential(deps.clock, () => deps.isCredentialValid(reply.request), abort)
        : null;
      try {
        writeHead(reply);
        for await (const item of source(stop.signal)) {
          if (stop.signal.aborted) break;
          await write(raw, encode(item), stop.signal);
        }
      } catch (error) {
        if (!stop.signal.aborted)
          raw.write(encode({ event: "error", data: deps.describe(error, reply.request.id) }));
      } finally {
        heartbeat.stop();
        credential?.stop();
        raw.off("close", abort);
        stop.abort();
        open_streams.delete(stop);
        deps.count(-1);
        raw.end();
      }
      return { hijacked: true };
    },
    close() {
      closed = true;
      for (const stop of open_streams) stop.abort();
    },
  };
}

function writeHead(reply: FastifyReply): void {
  reply.hijack();
  reply.raw.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-request-id": reply.request.id,
  });
  reply.raw.write(": connected\n\n");
}

/** Waits for a slow reader, so that its backlog does not exhaust memory. */
async function write(raw: ServerResponse, text: string, stop: AbortSignal): Promise<void> {
  if (raw.write(text)) return;
  await once(raw, "drain", { signal: stop }).catch(() => undefined);
}

function startHeartbeat(clock: Clock, raw: ServerResponse): Timer {
  let timer: Timer;
  const schedule = () => {
    timer = clock.after(HEARTBEAT_MS, () => {
      // Heartbeats must not pile up for a client that has stopped reading.
      if (!raw.writableNeedDrain) raw.write(": alive\n\n");
      schedule();
    });
  };
  schedule();
  return { stop: () => timer.stop() };
}

function encode(item: SseItem): string {
  const id = item.id === undefined ? "" : `id: ${item.id}\n`;
  const event = item.event === undefined ? "" : `event: ${item.event}\n`;
  return `${id}${event}data: ${item.data}\n\n`;
}
