/**
 * Delivers the result of a call to the client. Usually the response is JSON. It is an event stream when something has
 * to be sent before the result (requested progress, log messages, a pending approval or a question), or after a long
 * wait. In the stateless revision a question ends the response instead, and the client sends the request again.
 */
import { codeOf, isObject, type JsonObject, MCP_ERRORS } from "@backplane/contract";
import type { Clock } from "@backplane/ports";
import type { FastifyReply } from "fastify";
import type { RouteResponse } from "../../http/route.ts";
import type { EventStreams, SseItem } from "../../sse/event-streams.ts";
import {
  errorMessage,
  isMcpError,
  isMcpRequestId,
  type McpClientRequest,
  McpError,
  requestMessage,
  resultMessage,
} from "../protocol/json-rpc.ts";
import { MessageQueue } from "../protocol/message-queue.ts";
import type { McpExchange } from "../session/exchange.ts";
import type { Question } from "../session/questions.ts";
import type { OpenCall } from "../session/sessions.ts";
import type { SuspendedCalls } from "./suspended-calls.ts";
import type { UpstreamCall } from "./upstream-call.ts";

/** A stream starts after this time at the latest, because proxies and clients time out without response headers. */
const HEADERS_AFTER_MS = 5_000;

export interface DeliverDeps {
  clock: Clock;
  streams: EventStreams;
  suspended: SuspendedCalls;
}

export interface McpDelivery {
  request: McpClientRequest;
  exchange: McpExchange;
  call: UpstreamCall;
  open_call: OpenCall;
}

type StreamItem = { notification: JsonObject } | { question: Question } | "end";

export async function deliver(
  deps: DeliverDeps,
  delivery: McpDelivery,
  reply: FastifyReply | null,
): Promise<RouteResponse> {
  const { exchange, call, request } = delivery;
  if (exchange.stateless && reply !== null) cancelOnDisconnect(delivery, reply);
  if (reply === null || !exchange.streams) {
    // Without a stream, only the stateless revision can send a question.
    if (!exchange.stateless) call.questions.close();
    return await respondWithJson(deps, delivery);
  }
  if (progressTokenOf(request) === undefined && !call.streamsFromStart()) {
    const first = await waitForEndOrQuestion(call, deps.clock);
    if (first === "question" && exchange.stateless) return await respondWithQuestions(deps, delivery);
    if (first === "end" && call.isQuiet(exchange)) return await respondWithResult(delivery);
  }
  try {
    return await deps.streams.stream(reply, (stop) => streamCall(deps, delivery, stop));
  } catch (error) {
    // Too many streams are open. The call has already started, so its result is sent without a stream.
    if (codeOf(error) !== "request.overloaded") throw error;
    if (!exchange.stateless) call.questions.close();
    return await respondWithJson(deps, delivery);
  }
}

async function respondWithJson(deps: DeliverDeps, delivery: McpDelivery): Promise<RouteResponse> {
  const first = await waitForEndOrQuestion(delivery.call, null);
  return first === "question"
    ? await respondWithQuestions(deps, delivery)
    : await respondWithResult(delivery);
}

async function respondWithResult({
  request,
  exchange,
  call,
  open_call,
}: McpDelivery): Promise<RouteResponse> {
  open_call.done = true;
  const result = await call.result;
  if (open_call.cancelled) throw new McpError(MCP_ERRORS.refused, "the request was cancelled");
  return exchange.respond(request.id, result);
}

async function respondWithQuestions(deps: DeliverDeps, delivery: McpDelivery): Promise<RouteResponse> {
  const result = await suspendCall(deps, delivery);
  return result === null
    ? await respondWithResult(delivery)
    : delivery.exchange.respond(delivery.request.id, result);
}

/**
 * Suspends the call and returns its questions. Null if too many calls are suspended: the gateway then answers the
 * questions itself, and the call continues.
 */
async function suspendCall(deps: DeliverDeps, { request, exchange, call, open_call }: McpDelivery) {
  // Questions that were asked in the same tick are sent together.
  await new Promise((resolve) => setImmediate(resolve));
  const state = deps.suspended.suspend(exchange.caller, request, call);
  if (state === null) {
    call.questions.close();
    return null;
  }
  open_call.done = true;
  const inputRequests: JsonObject = {};
  for (const { key, method, params } of call.questions.pending) inputRequests[key] = { method, params };
  return { resultType: "input_required", inputRequests, requestState: state };
}

async function* streamCall(
  deps: DeliverDeps,
  delivery: McpDelivery,
  stop: AbortSignal,
): AsyncGenerator<SseItem> {
  const { call, exchange, request, open_call } = delivery;
  const { session } = exchange;
  const items = new MessageQueue<StreamItem>();
  const queueNotifications = async () => {
    const source = call.notifications(exchange, progressTokenOf(request), stop);
    for await (const notification of source) items.put({ notification });
  };
  void queueNotifications()
    .catch(() => undefined)
    .then(() => call.result)
    .catch(() => undefined)
    .then(() => items.put("end"));
  call.questions.listen((question) => items.put({ question }));
  try {
    for await (const item of items.read(stop)) {
      if (item === "end") {
        open_call.done = true;
        // MCP: a cancelled request gets no response.
        if (!open_call.cancelled) yield sseItem(await toResultMessage(delivery));
        return;
      }
      if ("notification" in item) yield sseItem(item.notification);
      else if (session !== null) {
        const { key, method, params } = item.question;
        yield sseItem(requestMessage(session.registerQuestion(call.questions, key), method, params));
      } else {
        const result = await suspendCall(deps, delivery);
        if (result === null) continue;
        yield sseItem(resultMessage(request.id, exchange.format(result)));
        return;
      }
    }
  } finally {
    call.questions.listen(null);
    // Nobody can answer now, unless the call was suspended until the client sends the request again.
    if (session !== null || !open_call.done) call.questions.close();
  }
}

async function toResultMessage({ request, exchange, call }: McpDelivery): Promise<JsonObject> {
  try {
    return resultMessage(request.id, exchange.format(await call.result));
  } catch (error) {
    return errorMessage(
      request.id,
      isMcpError(error) ? error : new McpError(MCP_ERRORS.internal_error, "the call failed unexpectedly"),
    );
  }
}

/** In the stateless revision, a client cancels a request by closing the connection. */
function cancelOnDisconnect({ open_call, call }: McpDelivery, reply: FastifyReply): void {
  reply.raw.once("close", () => {
    if (!open_call.done) call.cancel();
  });
}

/**
 * Resolves when the call ends or asks a question; null if neither happens within the time limit, which applies when a
 * clock is passed. Uses one promise for all three outcomes, because nearly every call waits here (benchmark
 * mcp.http-call.cpu).
 */
function waitForEndOrQuestion(call: UpstreamCall, clock: Clock | null): Promise<"end" | "question" | null> {
  return new Promise((resolve) => {
    const may_ask = call.questions.can_ask;
    const timer = clock?.after(HEADERS_AFTER_MS, () => finish(null));
    const finish = (first: "end" | "question" | null): void => {
      timer?.stop();
      if (may_ask) call.questions.listen(null);
      resolve(first);
    };
    const end = (): void => finish("end");
    call.result.then(end, end);
    if (may_ask) call.questions.listen(() => finish("question"));
  });
}

function progressTokenOf({ params }: McpClientRequest): string | number | undefined {
  const token = isObject(params._meta) ? params._meta.progressToken : undefined;
  return isMcpRequestId(token) ? token : undefined;
}

function sseItem(message: JsonObject): SseItem {
  return { data: JSON.stringify(message) };
}

/** Resolves to null if the time runs out first. */
export function resolveWithin<T>(clock: Clock, promise: Promise<T>, ms: number): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const timer = clock.after(ms, () => resolve(null));
    promise.then(
      (value) => {
        timer.stop();
        resolve(value);
      },
      (error: unknown) => {
        timer.stop();
        reject(error as Error);
      },
    );
  });
}
