/**
 * `tools/call`, through the one door. The usual call is one JSON answer. It becomes an event stream where there is
 * something to tell first: progress that was asked for, log messages, a person who has to answer, or a long wait.
 */
import {
  codeOf,
  type Invocation,
  type InvokeBody,
  type JsonObject,
  toBackplaneError,
} from "@backplane/contract";
import type { CatalogTool, Clock, Kernel, Ticket, WatchItem } from "@backplane/kernel";
import type { FastifyReply } from "fastify";
import type { EventStreams, SseItem } from "../event-streams.ts";
import type { Metrics } from "../metrics.ts";
import type { Answer } from "../route.ts";
import { createNotes, type NoteTaker } from "./call-notes.ts";
import { callResult, gatewayRefusal, refusedResult } from "./call-result.ts";
import { errorMessage, isId, isObject, resultMessage, RPC, RpcError, type RpcRequest } from "./json-rpc.ts";
import type { Exchange } from "./methods.ts";
import type { OpenCall } from "./sessions.ts";

/** After this long the answer's headers are sent: proxies and clients give up on silence. */
const PATIENCE_MS = 5_000;
/** A waiting client is told again this often. */
const REMIND_MS = 15_000;

export interface CallDeps {
  kernel: Kernel;
  clock: Clock;
  streams: EventStreams;
  metrics: Metrics;
}

interface Call {
  request: RpcRequest;
  exchange: Exchange;
  ticket: Ticket;
  open: OpenCall;
}

export async function callTool(
  deps: CallDeps,
  request: RpcRequest,
  exchange: Exchange,
  reply: FastifyReply | null,
): Promise<Answer> {
  const { caller, session } = exchange;
  const { body, token, tool } = await readCall(deps.kernel, request, exchange);
  const open: OpenCall = { invocation_id: null, cancelled: session?.wasCancelled(request.id) ?? false };
  session?.calls.set(request.id, open);
  const forget = () => session?.calls.delete(request.id);
  let ticket: Ticket;
  try {
    ticket = await deps.kernel.invocations.invoke(caller, body, { context: "conversation" });
  } catch (error) {
    forget();
    const refused = toBackplaneError(error);
    if (refused.code === "export.not_found") throw unknownTool(tool.name);
    const result = refusedResult(refused);
    if (result === null) throw gatewayRefusal(refused);
    return exchange.answer(request.id, result);
  }
  open.invocation_id = ticket.id;
  const cancel = () => void deps.kernel.invocations.cancel(caller, ticket.id).catch(() => undefined);
  if (open.cancelled) cancel();
  let ended = false;
  void ticket.settled.then((invocation) => {
    ended = true;
    forget();
    deps.metrics.invocationEnded(invocation.status);
  });
  // Without a session a client says by going away that it wants no answer any more.
  if (exchange.stateless) reply?.raw.once("close", () => void (ended || cancel()));
  const call: Call = { request, exchange, ticket, open };
  return await deliver(deps, call, createNotes(token, exchange.least, tool.name), token !== undefined, reply);
}

async function readCall(kernel: Kernel, { id, params }: RpcRequest, { caller, session }: Exchange) {
  const { name, arguments: input = {}, _meta } = params;
  if (typeof name !== "string") throw new RpcError(RPC.invalid_params, "params.name must be a text");
  if (!isObject(input)) throw new RpcError(RPC.invalid_params, "params.arguments must be an object");
  if (session?.calls.has(id) === true) throw new RpcError(RPC.invalid_request, `the id ${id} is in use`);
  const tool: CatalogTool | null = await kernel.catalog.find(caller, name);
  if (tool === null) throw unknownTool(name);
  const which =
    tool.binding_id === null
      ? { export_id: name, package_id: tool.package_id }
      : { binding_id: tool.binding_id };
  const body: InvokeBody = { ...which, input, ...(session === null ? {} : { session_id: session.ref }) };
  const token = isObject(_meta) ? _meta.progressToken : undefined;
  return { tool, body, token: isId(token) ? token : undefined };
}

function unknownTool(name: string): RpcError {
  return new RpcError(RPC.invalid_params, `Unknown tool: ${name.slice(0, 128)}`);
}

async function deliver(
  deps: CallDeps,
  call: Call,
  notes: NoteTaker,
  wants_progress: boolean,
  reply: FastifyReply | null,
): Promise<Answer> {
  const { ticket, exchange } = call;
  if (reply === null || !exchange.streams) return whole(call, await ticket.settled);
  if (!wants_progress && !isWaiting(ticket)) {
    const ended = await within(deps.clock, ticket.settled, PATIENCE_MS);
    if (ended !== null && (ticket.events === 0 || exchange.least === null)) return whole(call, ended);
  }
  try {
    return await deps.streams.stream(reply, (stop) => told(deps, call, notes, stop));
  } catch (error) {
    // Too many streams are open: the call runs already, so it is answered all the same.
    if (codeOf(error) !== "request.overloaded") throw error;
    return whole(call, await ticket.settled);
  }
}

function whole({ request, exchange, open }: Call, ended: Invocation): Answer {
  if (open.cancelled) throw new RpcError(RPC.refused, "the request was cancelled");
  return exchange.answer(request.id, callResult(ended));
}

async function* told(
  deps: CallDeps,
  call: Call,
  notes: NoteTaker,
  stop: AbortSignal,
): AsyncGenerator<SseItem> {
  const { ticket, exchange, request, open } = call;
  const waiting = (repeated: boolean) => notes.waiting(ticket.invocation, repeated).map(item);
  if (isWaiting(ticket)) yield* waiting(false);
  const source = deps.kernel.invocations.watch(exchange.caller, ticket.id, 0, stop);
  for await (const one of reminding(deps.clock, source, () => isWaiting(ticket))) {
    if (one === "again") yield* waiting(true);
    else if ("settled" in one) {
      // A client that cancelled wants no answer.
      if (!open.cancelled) yield item(resultMessage(request.id, exchange.spell(callResult(one.settled))));
      return;
    } else {
      const note = notes.event(one.event);
      if (note !== null) yield item(note);
    }
  }
  if (!stop.aborted)
    yield item(
      errorMessage(request.id, new RpcError(RPC.refused, "the gateway stops; the call goes on later")),
    );
}

/** The items of `source`, and `again` in between for as long as `asks`. */
async function* reminding(
  clock: Clock,
  source: AsyncIterable<WatchItem>,
  asks: () => boolean,
): AsyncGenerator<WatchItem | "again"> {
  const items = source[Symbol.asyncIterator]();
  let next = items.next();
  try {
    for (;;) {
      const given = asks() ? await within(clock, next, REMIND_MS) : await next;
      if (given === null) {
        if (asks()) yield "again";
        continue;
      }
      if (given.done === true) return;
      yield given.value;
      next = items.next();
    }
  } finally {
    await items.return?.();
  }
}

function isWaiting({ invocation }: Ticket): boolean {
  return invocation.status === "waiting_approval";
}

function item(message: JsonObject): SseItem {
  return { data: JSON.stringify(message) };
}

/** Null when the time is over first. */
function within<T>(clock: Clock, promise: Promise<T>, ms: number): Promise<T | null> {
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
