/**
 * How the answer to a request under way reaches its client. The usual one is a piece of JSON. It becomes an event stream
 * where there is something to tell first: progress that was asked for, log messages, a person who has to answer, a
 * question, or a long wait. In the stateless revision a question ends the answer instead, and the client asks again.
 */
import { codeOf, type JsonObject } from "@backplane/contract";
import type { Clock } from "@backplane/kernel";
import type { FastifyReply } from "fastify";
import type { EventStreams, SseItem } from "../event-streams.ts";
import type { Answer } from "../route.ts";
import {
  errorMessage,
  isId,
  isObject,
  isRpcError,
  requestMessage,
  resultMessage,
  RPC,
  RpcError,
  type RpcRequest,
} from "./json-rpc.ts";
import type { Exchange } from "./exchange.ts";
import type { Parked } from "./parked.ts";
import type { Question } from "./questions.ts";
import type { OpenCall } from "./sessions.ts";
import { NoteQueue, type Work } from "./work.ts";

/** After this long the answer's headers are sent: proxies and clients give up on silence. */
const PATIENCE_MS = 5_000;

export interface DeliverDeps {
  clock: Clock;
  streams: EventStreams;
  parked: Parked;
}

export interface Delivery {
  request: RpcRequest;
  exchange: Exchange;
  work: Work;
  open: OpenCall;
}

type Moment = { note: JsonObject } | { question: Question } | "over";

export async function deliver(
  deps: DeliverDeps,
  delivery: Delivery,
  reply: FastifyReply | null,
): Promise<Answer> {
  const { exchange, work, request } = delivery;
  if (exchange.stateless && reply !== null) cancelWhenGone(delivery, reply);
  if (reply === null || !exchange.streams) {
    // Without a stream a question can only be the answer itself.
    if (!exchange.stateless) work.questions.close();
    return await inOnePiece(deps, delivery);
  }
  if (progressToken(request) === undefined && !work.eager()) {
    const first = await endOrQuestion(work, deps.clock);
    if (first === "question" && exchange.stateless) return await askBack(deps, delivery);
    if (first === "end" && work.quiet(exchange)) return await whole(delivery);
  }
  try {
    return await deps.streams.stream(reply, (stop) => told(deps, delivery, stop));
  } catch (error) {
    // Too many streams are open: what was asked for is under way already, so it is answered all the same.
    if (codeOf(error) !== "request.overloaded") throw error;
    if (!exchange.stateless) work.questions.close();
    return await inOnePiece(deps, delivery);
  }
}

async function inOnePiece(deps: DeliverDeps, delivery: Delivery): Promise<Answer> {
  const first = await endOrQuestion(delivery.work, null);
  return first === "question" ? await askBack(deps, delivery) : await whole(delivery);
}

async function whole({ request, exchange, work, open }: Delivery): Promise<Answer> {
  open.over = true;
  const result = await work.result;
  if (open.cancelled) throw new RpcError(RPC.refused, "the request was cancelled");
  return exchange.answer(request.id, result);
}

async function askBack(deps: DeliverDeps, delivery: Delivery): Promise<Answer> {
  const result = await inputRequired(deps, delivery);
  return result === null ? await whole(delivery) : delivery.exchange.answer(delivery.request.id, result);
}

/** Null: there is no room to wait, so the gateway answers and the work goes on. */
async function inputRequired(deps: DeliverDeps, { request, exchange, work, open }: Delivery) {
  // What is asked in one go is put to the client in one go.
  await new Promise((resolve) => setImmediate(resolve));
  const state = deps.parked.park(exchange.caller, request, work);
  if (state === null) {
    work.questions.close();
    return null;
  }
  open.over = true;
  const inputRequests: JsonObject = {};
  for (const { key, method, params } of work.questions.open) inputRequests[key] = { method, params };
  return { resultType: "input_required", inputRequests, requestState: state };
}

async function* told(deps: DeliverDeps, delivery: Delivery, stop: AbortSignal): AsyncGenerator<SseItem> {
  const { work, exchange, request, open } = delivery;
  const { session } = exchange;
  const moments = new NoteQueue<Moment>();
  const put = async () => {
    for await (const note of work.notes(exchange, progressToken(request), stop)) moments.put({ note });
  };
  void put()
    .catch(() => undefined)
    .then(() => work.result)
    .catch(() => undefined)
    .then(() => moments.put("over"));
  work.questions.listen((question) => moments.put({ question }));
  try {
    for await (const moment of moments.read(stop)) {
      if (moment === "over") {
        open.over = true;
        // A client that cancelled wants no answer.
        if (!open.cancelled) yield item(await ending(delivery));
        return;
      }
      if ("note" in moment) yield item(moment.note);
      else if (session !== null) {
        const { key, method, params } = moment.question;
        yield item(requestMessage(session.asking(work.questions, key), method, params));
      } else {
        const result = await inputRequired(deps, delivery);
        if (result === null) continue;
        yield item(resultMessage(request.id, exchange.spell(result)));
        return;
      }
    }
  } finally {
    work.questions.listen(null);
    // Whoever could have answered is gone; what is parked waits for the next request.
    if (session !== null || !open.over) work.questions.close();
  }
}

async function ending({ request, exchange, work }: Delivery): Promise<JsonObject> {
  try {
    return resultMessage(request.id, exchange.spell(await work.result));
  } catch (error) {
    return errorMessage(request.id, isRpcError(error) ? error : new RpcError(RPC.internal, "it failed"));
  }
}

/** Without a session a client says by going away that it wants no answer any more. */
function cancelWhenGone({ open, work }: Delivery, reply: FastifyReply): void {
  reply.raw.once("close", () => {
    if (!open.over) work.cancel();
  });
}

/** Null, where there is a clock: neither came in time. One promise for all three, since nearly every call waits here. */
function endOrQuestion(work: Work, clock: Clock | null): Promise<"end" | "question" | null> {
  return new Promise((resolve) => {
    const asks = work.questions.possible;
    const timer = clock?.after(PATIENCE_MS, () => come(null));
    const come = (first: "end" | "question" | null): void => {
      timer?.stop();
      if (asks) work.questions.listen(null);
      resolve(first);
    };
    const end = (): void => come("end");
    work.result.then(end, end);
    if (asks) work.questions.listen(() => come("question"));
  });
}

function progressToken({ params }: RpcRequest): string | number | undefined {
  const token = isObject(params._meta) ? params._meta.progressToken : undefined;
  return isId(token) ? token : undefined;
}

function item(message: JsonObject): SseItem {
  return { data: JSON.stringify(message) };
}

/** Null when the time is over first. */
export function within<T>(clock: Clock, promise: Promise<T>, ms: number): Promise<T | null> {
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
