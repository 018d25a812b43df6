/** `tools/call`, through the one door: the tool by its name, then its invocation as a piece of work. */
import {
  type Invocation,
  type InvokeBody,
  isTerminal,
  type JsonObject,
  toBackplaneError,
} from "@backplane/contract";
import type { CatalogTool, Clock, Kernel, Ticket, WatchItem } from "@backplane/kernel";
import type { FastifyReply } from "fastify";
import type { Metrics } from "../metrics.ts";
import type { Answer } from "../route.ts";
import { createNotes } from "./call-notes.ts";
import { callResult, gatewayRefusal, refusedResult } from "./call-result.ts";
import { deliver, type DeliverDeps, within } from "./deliver.ts";
import { isObject, RPC, RpcError, type RpcRequest } from "./json-rpc.ts";
import type { Exchange } from "./exchange.ts";
import { Questions, readResponses } from "./questions.ts";
import { type McpSession, type OpenCall, openCall } from "./sessions.ts";
import type { ToolNames } from "./tool-names.ts";
import type { Work } from "./work.ts";

/** A waiting client is told again this often. */
const REMIND_MS = 15_000;

export interface CallDeps extends DeliverDeps {
  kernel: Kernel;
  metrics: Metrics;
  names: ToolNames;
}

export async function callTool(
  deps: CallDeps,
  request: RpcRequest,
  exchange: Exchange,
  reply: FastifyReply | null,
): Promise<Answer> {
  const { caller, session } = exchange;
  if (exchange.stateless && request.params.requestState !== undefined) {
    const given = readResponses(request.params.inputResponses);
    const work = deps.parked.take(caller, request, request.params.requestState);
    for (const [key, answer] of Object.entries(given)) work.questions.answer(key, answer as JsonObject);
    return await deliver(deps, { request, exchange, work, open: openCall(work) }, reply);
  }
  const { name, input } = readCall(request, exchange);
  // Usually there at once.
  const found = deps.names.find(caller, exchange.view, name);
  const tool = found instanceof Promise ? await found : found;
  if (tool === null) throw unknownTool(name);
  const open: OpenCall = openCall(null);
  if (session !== null) {
    open.cancelled = session.wasCancelled(request.id);
    session.calls.add(request.id, open);
  }
  const given = exchange.stateless ? readResponses(request.params.inputResponses) : undefined;
  const questions = new Questions(exchange.capabilities, given);
  let ticket: Ticket;
  try {
    ticket = await deps.kernel.invocations.invoke(
      caller,
      bodyOf(tool, input, session),
      questions.possible ? { context: "conversation", ask: questions.ask } : CONVERSATION,
    );
  } catch (error) {
    session?.calls.delete(request.id);
    const refused = toBackplaneError(error);
    if (refused.code === "export.not_found") throw unknownTool(tool.name);
    const result = refusedResult(refused);
    if (result === null) throw gatewayRefusal(refused);
    return exchange.answer(request.id, result);
  }
  const work = new ToolWork(deps, exchange, ticket, questions, tool.name, ({ status }) => {
    session?.calls.delete(request.id);
    questions.close();
    deps.metrics.invocationEnded(status);
  });
  open.cancel = () => work.cancel();
  if (open.cancelled) work.cancel();
  return await deliver(deps, { request, exchange, work, open }, reply);
}

const CONVERSATION = { context: "conversation" } as const;

function readCall({ id, params }: RpcRequest, { session }: Exchange): { name: string; input: JsonObject } {
  const { name, arguments: input = {} } = params;
  if (typeof name !== "string") throw new RpcError(RPC.invalid_params, "params.name must be a text");
  if (!isObject(input)) throw new RpcError(RPC.invalid_params, "params.arguments must be an object");
  if (session?.calls.has(id) === true) throw new RpcError(RPC.invalid_request, `the id ${id} is in use`);
  return { name, input };
}

function bodyOf(tool: CatalogTool, input: JsonObject, session: McpSession | null): InvokeBody {
  const body: InvokeBody = { export_id: tool.name, input };
  if (tool.binding_id === null) body.package_id = tool.package_id;
  else body.binding_id = tool.binding_id;
  if (session !== null) body.session_id = session.ref;
  return body;
}

function unknownTool(name: string): RpcError {
  return new RpcError(RPC.invalid_params, `Unknown tool: ${name.slice(0, 128)}`);
}

/** An invocation as the edge sees it: its result, its events as notifications, its questions. */
class ToolWork implements Work {
  readonly result: Promise<JsonObject>;
  readonly questions: Questions;
  readonly #deps: { kernel: Kernel; clock: Clock };
  readonly #exchange: Exchange;
  readonly #ticket: Ticket;
  readonly #tool: string;
  /** What was told already, in an earlier round. */
  #seen = 0;

  constructor(
    deps: { kernel: Kernel; clock: Clock },
    exchange: Exchange,
    ticket: Ticket,
    questions: Questions,
    tool: string,
    ended: (invocation: Invocation) => void,
  ) {
    this.#deps = deps;
    this.#exchange = exchange;
    this.#ticket = ticket;
    this.#tool = tool;
    this.questions = questions;
    this.result = ticket.settled.then((invocation) => {
      ended(invocation);
      if (!isTerminal(invocation.status))
        throw new RpcError(RPC.refused, "the gateway stops; the call goes on later");
      return callResult(invocation);
    });
    this.result.catch(() => undefined);
  }

  eager(): boolean {
    return this.#waiting;
  }

  quiet({ least }: Exchange): boolean {
    return this.#ticket.events === this.#seen || least === null;
  }

  cancel(): void {
    const { kernel } = this.#deps;
    void kernel.invocations.cancel(this.#exchange.caller, this.#ticket.id).catch(() => undefined);
  }

  async *notes(
    { least }: Exchange,
    token: string | number | undefined,
    stop: AbortSignal,
  ): AsyncGenerator<JsonObject> {
    const notes = createNotes(token, least, this.#tool);
    if (this.#waiting) yield* notes.waiting(this.#ticket.invocation, false);
    const { kernel, clock } = this.#deps;
    const source = kernel.invocations.watch(this.#exchange.caller, this.#ticket.id, this.#seen, stop);
    for await (const one of reminding(clock, source, () => this.#waiting)) {
      if (one === "again") yield* notes.waiting(this.#ticket.invocation, true);
      else if ("settled" in one) return;
      else {
        this.#seen = one.seq;
        const note = notes.event(one.event);
        if (note !== null) yield note;
      }
    }
  }

  get #waiting(): boolean {
    return this.#ticket.status === "waiting_approval";
  }
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
