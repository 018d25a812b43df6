/**
 * One request as its method sees it, whatever the revision: who asks, what the client can do, and how a result is spelt.
 * The negotiated revisions have it from the session, the stateless one from the request itself.
 */
import type { JsonObject } from "@backplane/contract";
import type { Caller } from "@backplane/kernel";
import type { Answer } from "../route.ts";
import { isObject, resultMessage, type RpcId, type RpcRequest } from "./json-rpc.ts";
import { type LogLevel, readLevel } from "./log-levels.ts";
import { META } from "./revisions.ts";
import type { McpSession } from "./sessions.ts";
import type { View } from "./view.ts";

export interface Exchange {
  caller: Caller;
  view: View;
  session: McpSession | null;
  stateless: boolean;
  /** The client takes an event stream. */
  streams: boolean;
  /** What the client can do. */
  capabilities: JsonObject;
  /** Log messages from this level on; null: none. */
  least: LogLevel | null;
  /** The result as this revision writes it. */
  spell(result: JsonObject): JsonObject;
  answer(id: RpcId, result: JsonObject): Answer;
}

/** Who asks, and of what. */
type Asked = Pick<Exchange, "caller" | "view">;

/** Results that a client may keep; here for no time at all, since `list_changed` tells when to ask again. */
const CACHEABLE: ReadonlySet<string> = new Set([
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "server/discover",
]);

export function negotiatedExchange(
  { caller, view }: Asked,
  session: McpSession | null,
  streams: boolean,
): Exchange {
  const least = session?.level ?? "info";
  const capabilities = session?.capabilities ?? NO_CAPABILITIES;
  return {
    caller,
    view,
    session,
    stateless: false,
    streams,
    capabilities,
    least,
    spell: asIs,
    answer: plain,
  };
}

const NO_CAPABILITIES: JsonObject = {};

function asIs(result: JsonObject): JsonObject {
  return result;
}

function plain(id: RpcId, result: JsonObject): Answer {
  return { status: 200, json: resultMessage(id, result) };
}

export function statelessExchange(
  { caller, view }: Asked,
  { params }: RpcRequest,
  streams: boolean,
  server_info: JsonObject,
): Exchange {
  const spell = (result: JsonObject): JsonObject => ({
    resultType: "complete",
    ...result,
    _meta: { ...(isObject(result._meta) ? result._meta : {}), [META.server_info]: server_info },
  });
  const answer = (id: RpcId, result: JsonObject): Answer => ({
    status: 200,
    json: resultMessage(id, spell(result)),
  });
  const meta = params._meta as JsonObject;
  const least = readLevel(meta[META.log_level]);
  const capabilities = meta[META.client_capabilities] as JsonObject;
  return { caller, view, session: null, stateless: true, streams, capabilities, least, spell, answer };
}

/** The same exchange, whose result says that it may be kept, where its revision has a word for it. */
export function cached(exchange: Exchange, method: string): Exchange {
  if (!exchange.stateless || !CACHEABLE.has(method)) return exchange;
  const spell = (result: JsonObject) => exchange.spell({ ttlMs: 0, cacheScope: "private", ...result });
  const answer = (id: RpcId, result: JsonObject): Answer => ({
    status: 200,
    json: resultMessage(id, spell(result)),
  });
  return { ...exchange, spell, answer };
}
