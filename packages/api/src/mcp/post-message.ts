/**
 * Handles a POST: determines the revision and the session, then runs the method. An invalid request gets a JSON-RPC
 * error with the HTTP status that its revision requires.
 */
import type { IncomingHttpHeaders } from "node:http";
import { isObject, type Json, type JsonObject, MCP_ERRORS, toBackplaneError } from "@backplane/contract";
import type { Caller, Clock, Logger } from "@backplane/ports";
import type { FastifyReply } from "fastify";
import type { RouteResponse } from "../http/route.ts";
import { type CallServerDeps, callServer, SERVER_METHODS, toMcpError } from "./calls/call-server.ts";
import { type CallToolDeps, callTool } from "./calls/call-tool.ts";
import type { View } from "./lists/view.ts";
import { CAPABILITIES, instructionsOf, type Methods } from "./methods.ts";
import { listenNotifications, type NotificationDeps } from "./notifications/notification-streams.ts";
import {
  errorMessage,
  isMcpError,
  isMcpRequestId,
  type McpClientNotification,
  type McpClientRequest,
  type McpClientResponse,
  McpError,
  type McpRequestId,
  readMessage,
  resultMessage,
} from "./protocol/json-rpc.ts";
import {
  checkVersionHeader,
  chooseRevision,
  DEFAULT_REVISION,
  hasStatelessVersion,
  isStateless,
  requestHeader,
} from "./protocol/revisions.ts";
import {
  createNegotiatedExchange,
  createStatelessExchange,
  type McpExchange,
  withCacheFields,
} from "./session/exchange.ts";
import type { McpSession, McpSessions } from "./session/sessions.ts";

export interface PostDeps extends CallToolDeps, CallServerDeps, NotificationDeps {
  clock: Clock;
  log: Logger;
  sessions: McpSessions;
  methods: { negotiated: Methods; stateless: Methods };
  server: { name: string; title: string; version: string };
}

export interface Post {
  caller: Caller;
  view: View;
  headers: IncomingHttpHeaders;
  body: unknown;
  reply: FastifyReply;
}

const REVISIONS_WITH_BATCHES: ReadonlySet<string> = new Set(["2025-03-26", "2024-11-05"]);
const MAX_BATCH = 100;
const ACCEPTED: RouteResponse = { status: 202, empty: true };

export function createPostHandler(deps: PostDeps): (post: Post) => Promise<RouteResponse> {
  const server_info: JsonObject = { ...deps.server };

  return async function handlePost(post) {
    const accepts = readAccept(post.headers.accept);
    if (accepts === null)
      return errorWithStatus(
        406,
        null,
        new McpError(MCP_ERRORS.refused, "Accept must contain application/json or text/event-stream"),
      );
    if (Array.isArray(post.body)) return await handleBatch(post, post.body);
    const message = readMessage(post.body);
    if (message === null) return errorWithStatus(400, idIn(post.body), notJsonRpc());
    if (message.kind === "request") return await handleRequest(post, message, accepts.streams);
    try {
      if (!hasStatelessVersion(post.headers)) {
        checkVersionHeader(post.headers);
        receive(findSession(post), message);
      }
      return ACCEPTED;
    } catch (error) {
      return errorResponse(error, null, true);
    }
  };

  async function handleRequest(
    post: Post,
    message: McpClientRequest,
    streams: boolean,
  ): Promise<RouteResponse> {
    let stateless = false;
    try {
      stateless = isStateless(message, post.headers);
      if (!stateless) checkVersionHeader(post.headers);
    } catch (error) {
      return errorResponse(error, message.id, true);
    }
    try {
      if (stateless)
        return await serve(message, createStatelessExchange(post, message, streams, server_info), post.reply);
      if (message.method === "initialize") return initialize(post, message);
      return await serve(message, createNegotiatedExchange(post, findSession(post), streams), post.reply);
    } catch (error) {
      return errorResponse(error, message.id, stateless && codeIn(error) === MCP_ERRORS.method_not_found);
    }
  }

  async function serve(
    message: McpClientRequest,
    exchange: McpExchange,
    reply: FastifyReply | null,
  ): Promise<RouteResponse> {
    const { id, method, params } = message;
    if (method === "tools/call") return await callTool(deps, message, exchange, reply);
    if (SERVER_METHODS.has(method))
      return await callServer(deps, message, withCacheFields(exchange, method), reply);
    if (exchange.stateless && method === "subscriptions/listen") {
      if (reply === null || !exchange.streams)
        throw new McpError(
          MCP_ERRORS.invalid_request,
          "subscriptions/listen requires Accept: text/event-stream",
        );
      const stream = await listenNotifications(message, exchange, deps);
      return await deps.streams.stream(reply, stream.items).finally(stream.close);
    }
    const methods = exchange.stateless ? deps.methods.stateless : deps.methods.negotiated;
    const run = methods.get(method);
    if (run === undefined)
      throw new McpError(MCP_ERRORS.method_not_found, `Method not found: ${method.slice(0, 128)}`);
    return withCacheFields(exchange, method).respond(id, await run(params, exchange));
  }

  function initialize({ caller, view }: Post, { id, params }: McpClientRequest): RouteResponse {
    if (typeof params.protocolVersion !== "string")
      throw new McpError(MCP_ERRORS.invalid_params, "params.protocolVersion must be a string");
    const session = deps.sessions.open(caller, {
      version: chooseRevision(params.protocolVersion),
      capabilities: isObject(params.capabilities) ? params.capabilities : {},
      server: view.server?.binding_id ?? null,
    });
    const result: JsonObject = {
      protocolVersion: session.version,
      capabilities: CAPABILITIES,
      serverInfo: server_info,
      instructions: instructionsOf(view),
    };
    return { status: 200, json: resultMessage(id, result), headers: { "mcp-session-id": session.id } };
  }

  /** Null if the client sent no session id. Throws for an unknown one. */
  function findSession({ caller, headers, view }: Post): McpSession | null {
    const id = requestHeader(headers["mcp-session-id"]);
    if (id === undefined) return null;
    const session = deps.sessions.find(caller, id, view.server?.binding_id ?? null);
    if (session === null) throw sessionNotFound();
    return session;
  }

  /** Handles a notification, or the client's response to a question. */
  function receive(session: McpSession | null, message: McpClientNotification | McpClientResponse): void {
    if (session === null) return;
    if (message.kind === "response") {
      session.receiveResponse(message);
      return;
    }
    const { method, params } = message;
    if (method !== "notifications/cancelled" || !isMcpRequestId(params.requestId)) return;
    const call = session.calls.get(params.requestId);
    if (call === undefined) {
      session.cancelEarly(params.requestId);
      return;
    }
    call.cancelled = true;
    call.cancel?.();
  }

  /** The responses to a batch are sent together. Revisions without batches accept only single messages. */
  async function handleBatch(post: Post, messages: unknown[]): Promise<RouteResponse> {
    try {
      checkVersionHeader(post.headers);
      const session = findSession(post);
      const version =
        session?.version ?? requestHeader(post.headers["mcp-protocol-version"]) ?? DEFAULT_REVISION;
      if (!REVISIONS_WITH_BATCHES.has(version))
        throw new McpError(MCP_ERRORS.invalid_request, `revision ${version} does not support batches`);
      if (messages.length === 0 || messages.length > MAX_BATCH)
        throw new McpError(MCP_ERRORS.invalid_request, `a batch must contain 1 to ${MAX_BATCH} messages`);
      const answers = await Promise.all(messages.map((message) => handleInBatch(post, session, message)));
      const responses = answers.filter((response) => response !== null);
      return responses.length === 0 ? ACCEPTED : { status: 200, json: responses };
    } catch (error) {
      return errorResponse(error, null, true);
    }
  }

  async function handleInBatch(post: Post, session: McpSession | null, value: unknown): Promise<Json | null> {
    const message = readMessage(value);
    if (message === null) return errorMessage(idIn(value), notJsonRpc());
    if (message.kind !== "request") {
      receive(session, message);
      return null;
    }
    try {
      const response = await serve(message, createNegotiatedExchange(post, session, false), null);
      return "json" in response ? (response.json as Json) : null;
    } catch (error) {
      return errorMessage(message.id, toRpcError(error));
    }
  }

  /**
   * An invalid request, an unknown session, a missing capability and, in the stateless revision, an unknown method have
   * an error status. Any other failure has status 200.
   */
  function errorResponse(error: unknown, id: McpRequestId | null, invalid_request: boolean): RouteResponse {
    const code = codeIn(error);
    const always = code === MCP_ERRORS.session_not_found || code === MCP_ERRORS.missing_capability;
    const status = invalid_request || always ? statusOf(code) : 200;
    return errorWithStatus(status, id, toRpcError(error));
  }

  function toRpcError(error: unknown): McpError {
    if (isMcpError(error)) return error;
    const known = toBackplaneError(error);
    if (known !== error || known.code === "internal") deps.log.error({ err: error }, "MCP request failed");
    return toMcpError(known, false);
  }
}

function errorWithStatus(status: number, id: McpRequestId | null, error: McpError): RouteResponse {
  return { status, json: errorMessage(id, error) };
}

function statusOf(code: number | null): number {
  return code === MCP_ERRORS.method_not_found || code === MCP_ERRORS.session_not_found ? 404 : 400;
}

function codeIn(error: unknown): number | null {
  return isMcpError(error) ? error.code : null;
}

export function sessionNotFound(): McpError {
  return new McpError(MCP_ERRORS.session_not_found, "Session not found");
}

function notJsonRpc(): McpError {
  return new McpError(MCP_ERRORS.invalid_request, "the body is not a JSON-RPC 2.0 message");
}

function idIn(body: unknown): McpRequestId | null {
  return isObject(body) && isMcpRequestId(body.id) ? body.id : null;
}

/** Null if the client accepts neither JSON nor event streams. Without an Accept header it gets JSON. */
function readAccept(accept: string | undefined): { streams: boolean } | null {
  if (accept === undefined || accept === "") return { streams: false };
  const streams = accept.includes("text/event-stream");
  return streams || /application\/(json|\*)|\*\/\*/.test(accept) ? { streams } : null;
}
