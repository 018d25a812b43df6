/**
 * A request independent of its revision: the caller, the capabilities of the client, and how a result is written. In
 * the negotiated revisions these come from the session, in the stateless one from the request itself.
 */
import { isObject, type JsonObject, MCP_META } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import type { RouteResponse } from "../../http/route.ts";
import type { View } from "../lists/view.ts";
import { type McpClientRequest, type McpRequestId, resultMessage } from "../protocol/json-rpc.ts";
import { type LogLevel, parseLogLevel } from "../protocol/log-levels.ts";
import type { McpSession } from "./sessions.ts";

export interface McpExchange {
  caller: Caller;
  view: View;
  session: McpSession | null;
  stateless: boolean;
  /** Whether the client accepts an event stream. */
  streams: boolean;
  capabilities: JsonObject;
  /** The least severe level of log messages to send; null if none are sent. */
  min_level: LogLevel | null;
  /** The result in the form of this revision. */
  format(result: JsonObject): JsonObject;
  respond(id: McpRequestId, result: JsonObject): RouteResponse;
}

type CallerAndView = Pick<McpExchange, "caller" | "view">;

/** Results of these methods must state how long clients may cache them: by default not at all. */
const CACHEABLE: ReadonlySet<string> = new Set([
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "server/discover",
]);

export function createNegotiatedExchange(
  { caller, view }: CallerAndView,
  session: McpSession | null,
  streams: boolean,
): McpExchange {
  const min_level = session?.level ?? "info";
  const capabilities = session?.capabilities ?? NO_CAPABILITIES;
  return {
    caller,
    view,
    session,
    stateless: false,
    streams,
    capabilities,
    min_level,
    format: unchanged,
    respond: plainResponse,
  };
}

const NO_CAPABILITIES: JsonObject = {};

function unchanged(result: JsonObject): JsonObject {
  return result;
}

function plainResponse(id: McpRequestId, result: JsonObject): RouteResponse {
  return { status: 200, json: resultMessage(id, result) };
}

export function createStatelessExchange(
  { caller, view }: CallerAndView,
  { params }: McpClientRequest,
  streams: boolean,
  server_info: JsonObject,
): McpExchange {
  const format = (result: JsonObject): JsonObject => ({
    resultType: "complete",
    ...result,
    _meta: { ...(isObject(result._meta) ? result._meta : {}), [MCP_META.server_info]: server_info },
  });
  const respond = (id: McpRequestId, result: JsonObject): RouteResponse => ({
    status: 200,
    json: resultMessage(id, format(result)),
  });
  const meta = params._meta as JsonObject;
  const min_level = parseLogLevel(meta[MCP_META.log_level]);
  const capabilities = meta[MCP_META.client_capabilities] as JsonObject;
  return {
    caller,
    view,
    session: null,
    stateless: true,
    streams,
    capabilities,
    min_level,
    format,
    respond,
  };
}

/** Adds the cache fields of the stateless revision to results of cacheable methods. */
export function withCacheFields(exchange: McpExchange, method: string): McpExchange {
  if (!exchange.stateless || !CACHEABLE.has(method)) return exchange;
  const format = (result: JsonObject) => exchange.format({ ttlMs: 0, cacheScope: "private", ...result });
  const respond = (id: McpRequestId, result: JsonObject): RouteResponse => ({
    status: 200,
    json: resultMessage(id, format(result)),
  });
  return { ...exchange, format, respond };
}
