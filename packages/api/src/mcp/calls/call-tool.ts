/** `tools/call`: finds the tool by its name and invokes it through the door. */
import {
  type Invocation,
  type InvokeBody,
  isObject,
  isTerminal,
  type JsonObject,
  MCP_ERRORS,
  toBackplaneError,
} from "@backplane/contract";
import type { CatalogTool, Clock, Kernel, Ticket, WatchItem } from "@backplane/ports";
import type { FastifyReply } from "fastify";
import type { RouteResponse } from "../../http/route.ts";
import { TOOL_CALL, TOOL_SEARCH } from "../lists/deferred-tools.ts";
import type { ViewTools } from "../lists/view-tools.ts";
import { type McpClientRequest, McpError } from "../protocol/json-rpc.ts";
import type { McpExchange } from "../session/exchange.ts";
import { Questions, readResponses } from "../session/questions.ts";
import { createOpenCall, type McpSession, type OpenCall } from "../session/sessions.ts";
import { askForApproval } from "./ask-approval.ts";
import { createCallNotifications } from "./call-notifications.ts";
import { buildCallResult, gatewayError, refusalResult } from "./call-result.ts";
import { type DeliverDeps, deliver, resolveWithin } from "./deliver.ts";
import { readToolCall, searchCatalog } from "./catalog-tools.ts";
import type { UpstreamCall } from "./upstream-call.ts";

/** How often a client is notified again that its call is awaiting approval. */
const REMIND_MS = 15_000;

export interface CallToolDeps extends DeliverDeps {
  kernel: Kernel;
  view_tools: ViewTools;
}

export async function callTool(
  deps: CallToolDeps,
  request: McpClientRequest,
  exchange: McpExchange,
  reply: FastifyReply | null,
): Promise<RouteResponse> {
  const { caller, session } = exchange;
  if (exchange.stateless && request.params.requestState !== undefined) {
    const responses = readResponses(request.params.inputResponses);
    const call = deps.suspended.resume(caller, request, request.params.requestState);
    for (const [key, answer] of Object.entries(responses)) call.questions.answer(key, answer as JsonObject);
    return await deliver(deps, { request, exchange, call, open_call: createOpenCall(call) }, reply);
  }
  let { name, input } = readCall(request, exchange);
  // Usually not a promise, and `await` would cost every call a tick (benchmark mcp.http-call.cpu).
  let lookup = deps.view_tools.find(caller, exchange.view, name);
  let tool = lookup instanceof Promise ? await lookup : lookup;
  if (tool === null && exchange.view.server === null && name === TOOL_SEARCH.name)
    return exchange.respond(request.id, await searchCatalog(deps.kernel.catalog, caller, input));
  if (tool === null && exchange.view.server === null && name === TOOL_CALL.name) {
    const call = readToolCall(input);
    if ("refusal" in call) return exchange.respond(request.id, call.refusal);
    ({ name, input } = call);
    lookup = deps.view_tools.find(caller, exchange.view, name);
    tool = lookup instanceof Promise ? await lookup : lookup;
  }
  if (tool === null) throw unknownTool(name);
  const open_call: OpenCall = createOpenCall(null);
  if (session !== null) {
    open_call.cancelled = session.consumeEarlyCancel(request.id);
    session.calls.set(request.id, open_call);
  }
  const responses = exchange.stateless ? readResponses(request.params.inputResponses) : undefined;
  const questions = new Questions(exchange.capabilities, responses);
  let ticket: Ticket;
  try {
    ticket = await deps.kernel.invocations.invoke(
      caller,
      // A call with a delegated token belongs to the session and run of the invocation that holds the token.
      buildInvokeBody(tool, input, caller.delegation === undefined ? session : null),
      questions.can_ask ? { context: "conversation", answerRequest: questions.answerRequest } : CONVERSATION,
    );
  } catch (error) {
    session?.calls.delete(request.id);
    const refused = toBackplaneError(error);
    if (refused.code === "export.not_found") throw unknownTool(tool.name);
    const result = refusalResult(refused);
    if (result === null) throw gatewayError(refused);
    return exchange.respond(request.id, result);
  }
  const call = new ToolCall(deps, exchange, ticket, questions, tool.name, () => {
    session?.calls.delete(request.id);
    questions.close();
  });
  open_call.cancel = () => call.cancel();
  if (open_call.cancelled) call.cancel();
  // Rejects if the approval was answered elsewhere in the meantime; the first answer counts.
  if (ticket.status === "waiting_approval")
    void askForApproval(deps.kernel, caller, ticket.invocation, questions).catch(() => undefined);
  return await deliver(deps, { request, exchange, call, open_call }, reply);
}

const CONVERSATION = { context: "conversation" } as const;

function readCall(
  { id, params }: McpClientRequest,
  { session }: McpExchange,
): { name: string; input: JsonObject } {
  const { name, arguments: input = {} } = params;
  if (typeof name !== "string") throw new McpError(MCP_ERRORS.invalid_params, "params.name must be a string");
  if (!isObject(input)) throw new McpError(MCP_ERRORS.invalid_params, "params.arguments must be an object");
  if (session?.calls.has(id) === true)
    throw new McpError(MCP_ERRORS.invalid_request, `the request id ${id} is in use`);
  return { name, input };
}

function buildInvokeBody(tool: CatalogTool, input: JsonObject, session: McpSession | null): InvokeBody {
  const body: InvokeBody = { export_id: tool.name, input };
  if (tool.binding_id === null) body.package_id = tool.package_id;
  else body.binding_id = tool.binding_id;
  if (session !== null) body.session_id = session.ref;
  return body;
}

function unknownTool(name: string): McpError {
  return new McpError(MCP_ERRORS.invalid_params, `Unknown tool: ${name.slice(0, 128)}`);
}

class ToolCall implements UpstreamCall {
  readonly result: Promise<JsonObject>;
  readonly questions: Questions;
  readonly #deps: { kernel: Kernel; clock: Clock };
  readonly #exchange: McpExchange;
  readonly #ticket: Ticket;
  readonly #tool: string;
  /** The number of the last event that was sent, possibly by an earlier response of a suspended call. */
  #last_seq = 0;

  constructor(
    deps: { kernel: Kernel; clock: Clock },
    exchange: McpExchange,
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
        throw new McpError(
          MCP_ERRORS.refused,
          "the gateway is stopping; the call continues after its restart",
        );
      const { kernel } = this.#deps;
      return buildCallResult(invocation, (id, sha256) =>
        kernel.invocations.openArtifact(exchange.caller, id, sha256),
      );
    });
    this.result.catch(() => undefined);
  }

  streamsFromStart(): boolean {
    return this.#awaiting_approval;
  }

  isQuiet({ min_level }: McpExchange): boolean {
    return this.#ticket.events === this.#last_seq || min_level === null;
  }

  cancel(): void {
    const { kernel } = this.#deps;
    void kernel.invocations.cancel(this.#exchange.caller, this.#ticket.id).catch(() => undefined);
  }

  async *notifications(
    { min_level }: McpExchange,
    progress_token: string | number | undefined,
    stop: AbortSignal,
  ): AsyncGenerator<JsonObject> {
    const notifications = createCallNotifications(progress_token, min_level, this.#tool);
    if (this.#awaiting_approval) yield* notifications.forApproval(this.#ticket.invocation, false);
    const { kernel, clock } = this.#deps;
    const source = kernel.invocations.watch(this.#exchange.caller, this.#ticket.id, this.#last_seq, stop);
    for await (const item of withReminders(clock, source, () => this.#awaiting_approval)) {
      if (item === "reminder") yield* notifications.forApproval(this.#ticket.invocation, true);
      else if ("settled" in item) return;
      else {
        this.#last_seq = item.seq;
        const message = notifications.forEvent(item.event);
        if (message !== null) yield message;
      }
    }
  }

  get #awaiting_approval(): boolean {
    return this.#ticket.status === "waiting_approval";
  }
}

/** The items of `source`, with a `reminder` at an interval for as long as `isDue` returns true. */
async function* withReminders(
  clock: Clock,
  source: AsyncIterable<WatchItem>,
  isDue: () => boolean,
): AsyncGenerator<WatchItem | "reminder"> {
  const items = source[Symbol.asyncIterator]();
  let next = items.next();
  try {
    for (;;) {
      const item = isDue() ? await resolveWithin(clock, next, REMIND_MS) : await next;
      if (item === null) {
        if (isDue()) yield "reminder";
        continue;
      }
      if (item.done === true) return;
      yield item.value;
      next = items.next();
    }
  } finally {
    await items.return?.();
  }
}
