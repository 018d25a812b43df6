/** Handles requests to model endpoints; the answer is streamed or sent as a whole. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { BackplaneError, type JsonObject } from "@backplane/contract";
import type { Caller, Clock, Kernel, LlmEndpointPart, Timer } from "@backplane/ports";
import type { FastifyReply, FastifyRequest } from "fastify";
import { watchCredential } from "../auth/watch-credential.ts";
import type { ErrorResponse } from "../http/error-envelope.ts";
import type { RouteResponse } from "../http/route.ts";
import { toEndpointError } from "./endpoint-error.ts";
import type { AnswerContext, EndpointProtocol, EndpointStream } from "./protocol.ts";

const HEARTBEAT_MS = 15_000;
const MAX_CALLS = 1_000;

export interface EndpointCalls {
  answer(protocol: EndpointProtocol, context: EndpointRequest): Promise<RouteResponse>;
  countTokens(protocol: EndpointProtocol, context: EndpointRequest): Promise<number>;
  /** Cancels all calls. */
  close(): void;
}

export interface EndpointRequest {
  caller: Caller;
  body: JsonObject;
  request: FastifyRequest;
  reply: FastifyReply;
}

interface CallsDeps {
  kernel: Pick<Kernel, "llm">;
  clock: Clock;
  isCredentialValid(request: FastifyRequest): Promise<boolean>;
  describe(error: unknown, request_id: string): ErrorResponse;
}

export function createEndpointCalls(deps: CallsDeps): EndpointCalls {
  const { kernel, clock } = deps;
  const active_calls = new Set<AbortController>();

  /** The controller is aborted when the client disconnects, its delegated token expires or the API closes. */
  async function runAbortable<T>(
    { caller, request, reply }: EndpointRequest,
    work: (stop: AbortController) => Promise<T>,
  ): Promise<T> {
    if (active_calls.size >= MAX_CALLS)
      throw new BackplaneError("request.overloaded", "Too many model calls are running.", {
        details: { retry_after_ms: 1_000 },
      });
    const stop = new AbortController();
    const abort = () => stop.abort();
    active_calls.add(stop);
    reply.raw.once("close", abort);
    if (reply.raw.destroyed) abort();
    const credential =
      caller.delegation === undefined
        ? null
        : watchCredential(clock, () => deps.isCredentialValid(request), abort);
    try {
      return await work(stop);
    } finally {
      credential?.stop();
      reply.raw.off("close", abort);
      active_calls.delete(stop);
    }
  }

  return {
    answer: (protocol, endpoint_request) =>
      runAbortable(endpoint_request, async (stop) => {
        const { caller, body, request, reply } = endpoint_request;
        const llm_request = protocol.read(body, forwardedHeaders(request));
        const { id, parts } = await kernel.llm.call(caller, llm_request, stop.signal);
        const context: AnswerContext = {
          id: id.slice(id.indexOf("_") + 1),
          created: Math.floor(clock.now() / 1_000),
          model: llm_request.model,
          body,
        };
        const headers = { "backplane-llm-call": id, "request-id": request.id };
        if (llm_request.stream) {
          const iterator = parts[Symbol.asyncIterator]();
          // A failure before the first part still gets an error status, because no headers have been sent.
          const first = await iterator.next();
          reply.hijack();
          await writeStream(reply, headers, protocol.stream(context), first, iterator, stop.signal);
          return { hijacked: true };
        }
        const all: LlmEndpointPart[] = [];
        for await (const part of parts) all.push(part);
        return { status: 200, json: protocol.answerBody(all, context), headers };
      }),
    countTokens: (protocol, endpoint_request) =>
      runAbortable(endpoint_request, (stop) =>
        kernel.llm.countTokens(
          endpoint_request.caller,
          protocol.read(endpoint_request.body, forwardedHeaders(endpoint_request.request)),
          stop.signal,
        ),
      ),
    close() {
      for (const stop of active_calls) stop.abort();
    },
  };

  async function writeStream(
    { raw, request }: FastifyReply,
    headers: Record<string, string>,
    stream: EndpointStream,
    first: IteratorResult<LlmEndpointPart>,
    remaining: AsyncIterator<LlmEndpointPart>,
    stop: AbortSignal,
  ): Promise<void> {
    raw.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
      "x-request-id": request.id,
      ...headers,
    });
    const heartbeat = startHeartbeat(() => {
      if (!raw.writableNeedDrain) raw.write(stream.heartbeat);
    });
    try {
      for (let step = first; step.done !== true && !stop.aborted; step = await remaining.next()) {
        const text = stream.formatPart(step.value);
        if (text === "" || (step === first ? writeImmediately(raw, text) : raw.write(text))) continue;
        await once(raw, "drain", { signal: stop }).catch(() => undefined);
      }
    } catch (error) {
      if (!stop.aborted) raw.write(stream.formatError(toEndpointError(deps.describe(error, request.id))));
    } finally {
      heartbeat.stop();
      raw.end();
    }
  }

  function startHeartbeat(beat: () => void): Timer {
    let timer: Timer;
    const schedule = () => {
      timer = clock.after(HEARTBEAT_MS, () => {
        beat();
        schedule();
      });
    };
    schedule();
    return { stop: () => timer.stop() };
  }
}

/**
 * Sends the headers and the first text of an answer. Node would send them once no promise callback is pending, after
 * all parts that the provider has sent with the first one (benchmark llm.proxy).
 */
function writeImmediately(raw: ServerResponse, text: string): boolean {
  raw.cork();
  const has_capacity = raw.write(text);
  raw.uncork();
  return has_capacity;
}

/** The headers that select features of a vendor's API. All others, above all credentials, are not forwarded. */
function forwardedHeaders({ headers }: FastifyRequest): Record<string, string> {
  const beta = headers["anthropic-beta"];
  return beta === undefined ? {} : { "anthropic-beta": [beta].flat().join(",") };
}
