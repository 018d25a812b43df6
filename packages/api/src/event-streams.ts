/**
 * Server-sent events. A stream ends when its source ends, when the client goes away or when the server closes;
 * each of them aborts the same signal, so no watcher outlives its reader.
 */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { BackplaneError } from "@backplane/contract";
import type { Clock, Timer } from "@backplane/kernel";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Answer } from "./route.ts";

const HEARTBEAT_MS = 15_000;
/** A plugin's token ends with its call, and what it opened ends within the second. */
const RECHECK_MS = 400;

export interface SseItem {
  id?: number;
  event?: string;
  data: string;
}

export interface EventStreams {
  /** Takes the reply over and writes what `source` yields. `describe` turns a late failure into an item. */
  stream(reply: FastifyReply, source: (stop: AbortSignal) => AsyncIterable<SseItem>): Promise<Answer>;
  /** Ends every open stream; new ones end at once. */
  close(): void;
}

export function createEventStreams(deps: {
  clock: Clock;
  /** More at one time are refused: each holds a socket, and ordinary requests need some too. */
  max: number;
  describe(error: unknown, request_id: string): string;
  count(change: 1 | -1): void;
  /** Whether the credential of a request still opens what it opened. */
  holds(request: FastifyRequest): Promise<boolean>;
}): EventStreams {
  const open = new Set<AbortController>();
  let closed = false;

  return {
    async stream(reply, source) {
      if (open.size >= deps.max)
        throw new BackplaneError("request.overloaded", "Too many event streams are open already.", {
          details: { retry_after_ms: 5_000 },
        });
      const raw = reply.raw;
      const stop = new AbortController();
      const abort = () => stop.abort();
      open.add(stop);
      deps.count(1);
      raw.once("close", abort);
      if (closed || raw.destroyed) abort();
      const heart = startHeartbeat(deps.clock, raw);
      const delegated = reply.request.caller?.delegation !== undefined;
      const leash = delegated ? startLeash(deps.clock, () => deps.holds(reply.request), abort) : null;
      try {
        begin(reply);
        for await (const item of source(stop.signal)) {
          if (stop.signal.aborted) break;
          await write(raw, encode(item), stop.signal);
        }
      } catch (error) {
        if (!stop.signal.aborted)
          raw.write(encode({ event: "error", data: deps.describe(error, reply.request.id) }));
      } finally {
        heart.stop();
        leash?.stop();
        raw.off("close", abort);
        stop.abort();
        open.delete(stop);
        deps.count(-1);
        raw.end();
      }
      return { hijacked: true };
    },
    close() {
      closed = true;
      for (const stop of open) stop.abort();
    },
  };
}

function begin(reply: FastifyReply): void {
  reply.hijack();
  reply.raw.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-request-id": reply.request.id,
  });
  reply.raw.write(": connected\n\n");
}

/** A slow reader holds the source back instead of filling our memory. */
async function write(raw: ServerResponse, text: string, stop: AbortSignal): Promise<void> {
  if (raw.write(text)) return;
  await once(raw, "drain", { signal: stop }).catch(() => undefined);
}

function startHeartbeat(clock: Clock, raw: ServerResponse): Timer {
  let timer: Timer;
  const arm = () => {
    timer = clock.after(HEARTBEAT_MS, () => {
      // Nothing is queued behind a reader that does not read.
      if (!raw.writableNeedDrain) raw.write(": alive\n\n");
      arm();
    });
  };
  arm();
  return { stop: () => timer.stop() };
}

/** Ends what hangs on it once `holds` says no. */
export function startLeash(clock: Clock, holds: () => Promise<boolean>, end: () => void): Timer {
  let timer: Timer;
  let stopped = false;
  const arm = () => {
    timer = clock.after(RECHECK_MS, () => {
      void holds().then((still) => {
        if (stopped) return;
        if (still) arm();
        else end();
      });
    });
  };
  arm();
  return {
    stop() {
      stopped = true;
      timer.stop();
    },
  };
}

function encode(item: SseItem): string {
  const id = item.id === undefined ? "" : `id: ${item.id}\n`;
  const event = item.event === undefined ? "" : `event: ${item.event}\n`;
  return `${id}${event}data: ${item.data}\n\n`;
}
