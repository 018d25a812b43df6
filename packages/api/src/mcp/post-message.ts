/**
 * One POST: whose revision it speaks, its session, then its method. A request is answered by what it asked for; anything
 * wrong with the request itself is an error object, with the HTTP status that its revision gives it.
 */
import type { IncomingHttpHeaders } from "node:http";
import { type Json, type JsonObject, toBackplaneError } from "@backplane/contract";
import type { Caller, Clock, Logger } from "@backplane/kernel";
import type { FastifyReply } from "fastify";
import type { Answer } from "../route.ts";
import { callServer, type CallServerDeps, SERVER_METHODS } from "./call-server.ts";
import { type CallDeps, callTool } from "./call-tool.ts";
import { cached, type Exchange, negotiatedExchange, statelessExchange } from "./exchange.ts";
import {
  errorMessage,
  isId,
  isObject,
  isRpcError,
  readMessage,
  resultMessage,
  RPC,
  type RpcAnswer,
  RpcError,
  type RpcId,
  type RpcNotification,
  type RpcRequest,
} from "./json-rpc.ts";
import { CAPABILITIES, instructionsOf, type Methods } from "./methods.ts";
import { checkVersionHeader, isStateless, namesStateless, negotiate, one, UNSAID } from "./revisions.ts";
import { type EventDeps, subscription } from "./server-events.ts";
import { serverError } from "./server-work.ts";
import type { McpSession, McpSessions } from "./sessions.ts";
import type { View } from "./view.ts";

export interface PostDeps extends CallDeps, CallServerDeps, EventDeps {
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

const BATCHES: ReadonlySet<string> = new Set(["2025-03-26", "2024-11-05"]);
const BATCH_MESSAGES = 100;
const ACCEPTED: Answer = { status: 202, empty: true };

export function createPost(deps: PostDeps): (post: Post) => Promise<Answer> {
  const server_info: JsonObject = { ...deps.server };

  return async function receive(post) {
    const accepts = acceptsOf(post.headers.accept);
    if (accepts === null)
      return failed(
        406,
        null,
        new RpcError(RPC.refused, "Accept must name application/json and text/event-stream"),
      );
    if (Array.isArray(post.body)) return await batch(post, post.body);
    const message = readMessage(post.body);
    if (message === null) return failed(400, idIn(post.body), notRpc());
    if (message.kind === "request") return await request(post, message, accepts.streams);
    try {
      if (!namesStateless(post.headers)) {
        checkVersionHeader(post.headers);
        received(sessionOf(post), message);
      }
      return ACCEPTED;
    } catch (error) {
      return answerOf(error, null, true);
    }
  };

  async function request(post: Post, message: RpcRequest, streams: boolean): Promise<Answer> {
    let stateless = false;
    try {
      stateless = isStateless(message, post.headers);
      if (!stateless) checkVersionHeader(post.headers);
    } catch (error) {
      return answerOf(error, message.id, true);
    }
    try {
      if (stateless)
        return await serve(message, statelessExchange(post, message, streams, server_info), post.reply);
      if (message.method === "initialize") return initialize(post, message);
      return await serve(message, negotiatedExchange(post, sessionOf(post), streams), post.reply);
    } catch (error) {
      return answerOf(error, message.id, stateless && codeIn(error) === RPC.method_not_found);
    }
  }

  async function serve(message: RpcRequest, exchange: Exchange, reply: FastifyReply | null): Promise<Answer> {
    const { id, method, params } = message;
    if (method === "tools/call") return await callTool(deps, message, exchange, reply);
    if (SERVER_METHODS.has(method)) return await callServer(deps, message, cached(exchange, method), reply);
    if (exchange.stateless && method === "subscriptions/listen") {
      if (reply === null || !exchange.streams)
        throw new RpcError(RPC.invalid_request, "subscriptions/listen needs text/event-stream");
      const source = await subscription(message, exchange, deps);
      return await deps.streams.stream(reply, source.items).finally(source.leave);
    }
    const methods = exchange.stateless ? deps.methods.stateless : deps.methods.negotiated;
    const run = methods.get(method);
    if (run === undefined)
      throw new RpcError(RPC.method_not_found, `Method not found: ${method.slice(0, 128)}`);
    return cached(exchange, method).answer(id, await run(params, exchange));
  }

  function initialize({ caller, view }: Post, { id, params }: RpcRequest): Answer {
    if (typeof params.protocolVersion !== "string")
      throw new RpcError(RPC.invalid_params, "params.protocolVersion must be a text");
    const session = deps.sessions.open(caller, {
      version: negotiate(params.protocolVersion),
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

  /** Null: the client keeps none. Throws for one that is not there. */
  function sessionOf({ caller, headers, view }: Post): McpSession | null {
    const id = one(headers["mcp-session-id"]);
    if (id === undefined) return null;
    const session = deps.sessions.find(caller, id, view.server?.binding_id ?? null);
    if (session === null) throw noSession();
    return session;
  }

  /** A notification, or an answer to a question of ours. */
  function received(session: McpSession | null, message: RpcNotification | RpcAnswer): void {
    if (session === null) return;
    if (message.kind === "answer") {
      session.answered(message);
      return;
    }
    const { method, params } = message;
    if (method !== "notifications/cancelled" || !isId(params.requestId)) return;
    const call = session.calls.get(params.requestId);
    if (call === undefined) {
      session.cancelEarly(params.requestId);
      return;
    }
    call.cancelled = true;
    call.cancel?.();
  }

  /** Revisions that have batches answer them in one piece; the others take one message at a time. */
  async function batch(post: Post, messages: unknown[]): Promise<Answer> {
    try {
      checkVersionHeader(post.headers);
      const session = sessionOf(post);
      const version = session?.version ?? one(post.headers["mcp-protocol-version"]) ?? UNSAID;
      if (!BATCHES.has(version))
        throw new RpcError(RPC.invalid_request, `revision ${version} has no batches`);
      if (messages.length === 0 || messages.length > BATCH_MESSAGES)
        throw new RpcError(RPC.invalid_request, `a batch has 1 to ${BATCH_MESSAGES} messages`);
      const answers = await Promise.all(messages.map((message) => inBatch(post, session, message)));
      const given = answers.filter((answer) => answer !== null);
      return given.length === 0 ? ACCEPTED : { status: 200, json: given };
    } catch (error) {
      return answerOf(error, null, true);
    }
  }

  async function inBatch(post: Post, session: McpSession | null, value: unknown): Promise<Json | null> {
    const message = readMessage(value);
    if (message === null) return errorMessage(idIn(value), notRpc());
    if (message.kind !== "request") {
      received(session, message);
      return null;
    }
    try {
      const answer = await serve(message, negotiatedExchange(post, session, false), null);
      return "json" in answer ? (answer.json as Json) : null;
    } catch (error) {
      return errorMessage(message.id, rpcErrorOf(error));
    }
  }

  /** Only what is wrong with the request itself has a status of its own. */
  function answerOf(error: unknown, id: RpcId | null, of_request: boolean): Answer {
    const code = codeIn(error);
    const told = code === RPC.session_not_found || code === RPC.missing_capability;
    const status = of_request || told ? statusOf(code) : 200;
    return failed(status, id, rpcErrorOf(error));
  }

  function rpcErrorOf(error: unknown): RpcError {
    if (isRpcError(error)) return error;
    const known = toBackplaneError(error);
    if (known.code === "internal") deps.log.error({ err: error }, "an MCP request failed");
    return serverError(known, false);
  }
}

function failed(status: number, id: RpcId | null, error: RpcError): Answer {
  return { status, json: errorMessage(id, error) };
}

function statusOf(code: number | null): number {
  return code === RPC.method_not_found || code === RPC.session_not_found ? 404 : 400;
}

function codeIn(error: unknown): number | null {
  return isRpcError(error) ? error.code : null;
}

export function noSession(): RpcError {
  return new RpcError(RPC.session_not_found, "Session not found");
}

function notRpc(): RpcError {
  return new RpcError(RPC.invalid_request, "the body is not a JSON-RPC 2.0 message");
}

function idIn(body: unknown): RpcId | null {
  return isObject(body) && isId(body.id) ? body.id : null;
}

/** Null: the client takes neither form of answer. A client that says nothing takes JSON. */
function acceptsOf(accept: string | undefined): { streams: boolean } | null {
  if (accept === undefined || accept === "") return { streams: false };
  const streams = accept.includes("text/event-stream");
  return streams || /application\/(json|\*)|\*\/\*/.test(accept) ? { streams } : null;
}
