/** Requests that a bound server handles: `resources/read`, `prompts/get` and `completion/complete`. */
import { isObject, type Json, type JsonObject, MCP_ERRORS, toBackplaneError } from "@backplane/contract";
import type { Kernel, ServerInfo, ServerRequestListener } from "@backplane/ports";
import type { FastifyReply } from "fastify";
import type { RouteResponse } from "../../http/route.ts";
import type { Prompts } from "../lists/prompts.ts";
import type { Resources } from "../lists/resources.ts";
import { isMcpError, type McpClientRequest, McpError, notification } from "../protocol/json-rpc.ts";
import { isLogged, toLogLevel } from "../protocol/log-levels.ts";
import { MessageQueue } from "../protocol/message-queue.ts";
import type { McpExchange } from "../session/exchange.ts";
import { Questions, readResponses } from "../session/questions.ts";
import { createOpenCall } from "../session/sessions.ts";
import { askForApproval } from "./ask-approval.ts";
import { awaitingApprovalMessage } from "./call-notifications.ts";
import { gatewayError } from "./call-result.ts";
import { type DeliverDeps, deliver } from "./deliver.ts";
import type { UpstreamCall } from "./upstream-call.ts";

export interface CallServerDeps extends DeliverDeps {
  kernel: Kernel;
  resources: Resources;
  prompts: Prompts;
}

type Target = { server: ServerInfo; params: JsonObject };

export const SERVER_METHODS: ReadonlySet<string> = new Set([
  "resources/read",
  "prompts/get",
  "completion/complete",
]);
const NO_COMPLETION: JsonObject = { completion: { values: [], total: 0, hasMore: false } };
/** Beyond this number, notifications of one request are dropped while the client does not read them. */
const MAX_NOTIFICATIONS = 1_000;

export async function callServer(
  deps: CallServerDeps,
  request: McpClientRequest,
  exchange: McpExchange,
  reply: FastifyReply | null,
): Promise<RouteResponse> {
  const { caller, session, stateless } = exchange;
  const { method, params } = request;
  const responses = stateless ? readResponses(params.inputResponses) : {};
  let call: UpstreamCall;
  if (stateless && params.requestState !== undefined) {
    call = deps.suspended.resume(caller, request, params.requestState);
    for (const [key, answer] of Object.entries(responses)) call.questions.answer(key, answer as JsonObject);
  } else {
    const target = await findTarget(deps, request, exchange);
    if (target === null) return exchange.respond(request.id, NO_COMPLETION);
    // MCP allows a server to send questions to the client during the other two methods, but not during completion.
    const capabilities = method === "completion/complete" ? {} : exchange.capabilities;
    call = new ServerCall(deps.kernel, { ...exchange, capabilities }, { ...target, method, responses });
  }
  const open_call = createOpenCall(call);
  if (session !== null) {
    session.calls.set(request.id, open_call);
    if (session.consumeEarlyCancel(request.id)) {
      open_call.cancelled = true;
      call.cancel();
    }
  }
  try {
    return await deliver(deps, { request, exchange, call, open_call }, reply);
  } finally {
    session?.calls.delete(request.id);
  }
}

/** The server, and the params with the server's own names. Null if the server offers no completion. */
async function findTarget(
  deps: CallServerDeps,
  { method, params }: McpClientRequest,
  { caller, view, stateless }: McpExchange,
): Promise<Target | null> {
  if (method === "resources/read") {
    const server = await deps.resources.findServer(caller, view, params.uri, stateless);
    return { server, params: { uri: params.uri! } };
  }
  if (method === "prompts/get") {
    const { server, name } = await deps.prompts.find(caller, view, params.name);
    return {
      server,
      params: { name, ...(isObject(params.arguments) ? { arguments: params.arguments } : {}) },
    };
  }
  const { ref, argument, context } = params;
  if (!isObject(ref) || !isObject(argument) || typeof argument.name !== "string")
    throw new McpError(MCP_ERRORS.invalid_params, "params.ref and params.argument.name are required");
  const target = await findCompletionTarget(deps, ref, { caller, view, stateless });
  if (!isObject(target.server.capabilities.completions)) return null;
  const completion_params: JsonObject = {
    ref: target.ref,
    argument,
    ...(isObject(context) ? { context } : {}),
  };
  return { server: target.server, params: completion_params };
}

async function findCompletionTarget(
  { prompts, resources }: CallServerDeps,
  ref: JsonObject,
  { caller, view, stateless }: Pick<McpExchange, "caller" | "view" | "stateless">,
): Promise<{ server: ServerInfo; ref: JsonObject }> {
  if (ref.type === "ref/prompt") {
    const { server, name } = await prompts.find(caller, view, ref.name);
    return { server, ref: { type: ref.type, name } };
  }
  if (ref.type === "ref/resource")
    return {
      server: await resources.findServer(caller, view, ref.uri, stateless),
      ref: { type: ref.type, uri: ref.uri as string },
    };
  throw new McpError(MCP_ERRORS.invalid_params, "params.ref.type must be ref/prompt or ref/resource");
}

interface ServerCallRequest extends Target {
  method: string;
  /** Answers that the client sent with the request. */
  responses: JsonObject;
}

interface NotificationMessage {
  method: string;
  params: JsonObject;
}

class ServerCall implements UpstreamCall {
  readonly result: Promise<JsonObject>;
  readonly questions: Questions;
  readonly #notifications = new MessageQueue<NotificationMessage>(MAX_NOTIFICATIONS);
  readonly #cancelled = new AbortController();

  constructor(kernel: Kernel, { caller, capabilities, stateless }: McpExchange, request: ServerCallRequest) {
    const { server, method, params, responses } = request;
    this.questions = new Questions(capabilities, responses);
    const listener: ServerRequestListener = {
      notify: (name, details) => this.#notifications.put({ method: name, params: details }),
      answerRequest: this.questions.answerRequest,
      waiting: ({ id, approval_id }) => {
        const message = awaitingApprovalMessage(method, approval_id);
        const data = { message, invocation_id: id, approval_id };
        const log_message = { level: "notice", logger: server.name, data };
        this.#notifications.put({ method: "notifications/message", params: log_message });
        void askForApproval(kernel, caller, { approval_id }, this.questions).catch(() => undefined);
      },
      signal: this.#cancelled.signal,
    };
    this.result = kernel.servers
      .request(caller, server.binding_id, method, params, listener)
      .then(
        (answer) => (isObject(answer) ? answer : {}),
        (error: unknown) => {
          throw toMcpError(error, stateless);
        },
      )
      .finally(() => {
        this.questions.close();
        this.#notifications.end();
      });
    this.result.catch(() => undefined);
  }

  streamsFromStart(): boolean {
    return false;
  }

  isQuiet(): boolean {
    return this.#notifications.size === 0;
  }

  /** Stops waiting for an approval, or cancels the request that the server is handling. */
  cancel(): void {
    this.questions.close();
    this.#cancelled.abort();
  }

  async *notifications(
    { min_level }: McpExchange,
    progress_token: string | number | undefined,
    stop: AbortSignal,
  ): AsyncGenerator<JsonObject> {
    for await (const { method, params } of this.#notifications.read(stop)) {
      if (method === "notifications/progress") {
        if (progress_token !== undefined)
          yield notification(method, { ...params, progressToken: progress_token });
      } else if (method === "notifications/message") {
        if (isLogged(toLogLevel(params.level), min_level)) yield notification(method, params);
      }
    }
  }
}

/** An error of the server keeps its code, except where the revisions use different codes for the same error. */
export function toMcpError(error: unknown, stateless: boolean): McpError {
  if (isMcpError(error)) return error;
  const known = toBackplaneError(error);
  const { rpc_code, data } = known.details ?? {};
  if (typeof rpc_code !== "number") return gatewayError(known);
  const missing = rpc_code === MCP_ERRORS.resource_not_found && stateless;
  return new McpError(
    missing ? MCP_ERRORS.invalid_params : rpc_code,
    known.message,
    data as Json | undefined,
  );
}
