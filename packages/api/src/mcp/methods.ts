/**
 * The methods whose result the gateway returns in one response. Methods that can send notifications or questions to the
 * client before the result are in calls/ and notifications/.
 */
import {
  type JsonObject,
  MCP_ERRORS,
  MCP_NEGOTIATED,
  MCP_STATELESS,
  sanitizeText,
} from "@backplane/contract";
import type { Prompts } from "./lists/prompts.ts";
import type { Resources } from "./lists/resources.ts";
import type { ToolPages } from "./lists/tool-pages.ts";
import type { View } from "./lists/view.ts";
import type { ViewTools } from "./lists/view-tools.ts";
import { MAX_SUBSCRIPTIONS, type Subscriptions } from "./notifications/subscriptions.ts";
import { McpError } from "./protocol/json-rpc.ts";
import { type LogLevel, parseLogLevel } from "./protocol/log-levels.ts";
import type { McpExchange } from "./session/exchange.ts";

export interface MethodDeps {
  view_tools: ViewTools;
  pages: ToolPages;
  resources: Resources;
  prompts: Prompts;
  subscriptions: Subscriptions;
  onLevelChanged(exchange: McpExchange, level: LogLevel): void;
}

type Method = (params: JsonObject, exchange: McpExchange) => Promise<JsonObject> | JsonObject;
export type Methods = ReadonlyMap<string, Method>;

/** The same for every endpoint. A server without resources or prompts lists none. */
export const CAPABILITIES: JsonObject = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  prompts: { listChanged: true },
  completions: {},
  logging: {},
};
const INSTRUCTIONS =
  "Tools of a Backplane gateway. Every call is recorded; some calls need the approval of a person first.";

export function instructionsOf({ server }: View): string {
  return server?.instructions == null ? INSTRUCTIONS : sanitizeText(server.instructions);
}

/** `negotiated` is for revisions up to 2025-11-25, `stateless` for later ones. */
export function createMethods(deps: MethodDeps): { negotiated: Methods; stateless: Methods } {
  const { view_tools, pages, resources, prompts } = deps;
  const shared: [string, Method][] = [
    [
      "tools/list",
      async ({ cursor }, { caller, view }) => pages.page(await view_tools.list(caller, view), cursor),
    ],
    ["resources/list", ({ cursor }, { caller, view }) => resources.list(caller, view, cursor)],
    [
      "resources/templates/list",
      ({ cursor }, { caller, view }) => resources.listTemplates(caller, view, cursor),
    ],
    ["prompts/list", ({ cursor }, { caller, view }) => prompts.list(caller, view, cursor)],
  ];
  return {
    negotiated: new Map<string, Method>([
      ...shared,
      ["ping", () => ({})],
      ["logging/setLevel", (params, exchange) => setLevel(deps, params, exchange)],
      ["resources/subscribe", (params, exchange) => subscribe(deps, params, exchange)],
      ["resources/unsubscribe", unsubscribe],
    ]),
    stateless: new Map<string, Method>([...shared, ["server/discover", discover]]),
  };
}

function discover(_params: JsonObject, { view }: McpExchange): JsonObject {
  return {
    supportedVersions: [MCP_STATELESS, ...MCP_NEGOTIATED],
    capabilities: CAPABILITIES,
    instructions: instructionsOf(view),
  };
}

function setLevel(deps: MethodDeps, { level }: JsonObject, exchange: McpExchange): JsonObject {
  const known = parseLogLevel(level);
  if (known === null)
    throw new McpError(MCP_ERRORS.invalid_params, "params.level must be one of the RFC 5424 levels");
  if (exchange.session !== null) exchange.session.level = known;
  deps.onLevelChanged(exchange, known);
  return {};
}

async function subscribe(
  { resources, subscriptions }: MethodDeps,
  { uri }: JsonObject,
  { caller, view, session, stateless }: McpExchange,
): Promise<JsonObject> {
  const server = await resources.findServer(caller, view, uri, stateless);
  if (session === null)
    throw new McpError(
      MCP_ERRORS.invalid_request,
      "a subscription requires a session; send initialize first",
    );
  const subscribed = uri as string;
  if (session.subscriptions.has(subscribed)) return {};
  if (session.subscriptions.size >= MAX_SUBSCRIPTIONS)
    throw new McpError(
      MCP_ERRORS.refused,
      `a session may subscribe to at most ${MAX_SUBSCRIPTIONS} resources; unsubscribe from some first`,
    );
  session.keepSubscription(subscribed, await subscriptions.subscribe(caller, server, subscribed));
  return {};
}

function unsubscribe({ uri }: JsonObject, { session }: McpExchange): JsonObject {
  if (typeof uri !== "string") throw new McpError(MCP_ERRORS.invalid_params, "params.uri must be a string");
  session?.subscriptions.get(uri)?.();
  session?.subscriptions.delete(uri);
  return {};
}
