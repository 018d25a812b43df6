/**
 * The methods that the gateway answers by itself. `tools/call` and what goes to a server behind may tell and ask first;
 * they stand in call-tool and call-server, `subscriptions/listen` in server-events.
 */
import { type JsonObject, plainWords } from "@backplane/contract";
import type { Exchange } from "./exchange.ts";
import { RPC, RpcError } from "./json-rpc.ts";
import type { ToolPages } from "./list-tools.ts";
import { type LogLevel, readLevel } from "./log-levels.ts";
import type { Prompts } from "./prompts.ts";
import type { Resources } from "./resources.ts";
import { NEGOTIATED, STATELESS } from "./revisions.ts";
import { SUBSCRIPTIONS, type Subscriptions } from "./subscriptions.ts";
import type { ToolNames } from "./tool-names.ts";
import type { View } from "./view.ts";

export interface MethodDeps {
  names: ToolNames;
  pages: ToolPages;
  resources: Resources;
  prompts: Prompts;
  subscriptions: Subscriptions;
  /** That a session wants other log messages now. */
  levelChanged(exchange: Exchange, level: LogLevel): void;
}

type Method = (params: JsonObject, exchange: Exchange) => Promise<JsonObject> | JsonObject;
export type Methods = ReadonlyMap<string, Method>;

/** What every endpoint can do. A server that has none of something lists none. */
export const CAPABILITIES: JsonObject = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  prompts: { listChanged: true },
  completions: {},
  logging: {},
};
const INSTRUCTIONS =
  "Tools of a Backplane gateway. Every call is recorded; some wait until a person has approved them.";

/** What the client is told of how to use this endpoint. */
export function instructionsOf({ server }: View): string {
  return server?.instructions == null ? INSTRUCTIONS : plainWords(server.instructions);
}

/** `negotiated` of revisions up to 2025-11-25, `stateless` of those after. */
export function createMethods(deps: MethodDeps): { negotiated: Methods; stateless: Methods } {
  const { names, pages, resources, prompts } = deps;
  const both: [string, Method][] = [
    [
      "tools/list",
      async ({ cursor }, { caller, view }) => pages.page(await names.list(caller, view), cursor),
    ],
    ["resources/list", ({ cursor }, { caller, view }) => resources.list(caller, view, cursor)],
    ["resources/templates/list", ({ cursor }, { caller, view }) => resources.templates(caller, view, cursor)],
    ["prompts/list", ({ cursor }, { caller, view }) => prompts.list(caller, view, cursor)],
  ];
  return {
    negotiated: new Map<string, Method>([
      ...both,
      ["ping", () => ({})],
      ["logging/setLevel", (params, exchange) => setLevel(deps, params, exchange)],
      ["resources/subscribe", (params, exchange) => subscribe(deps, params, exchange)],
      ["resources/unsubscribe", unsubscribe],
    ]),
    stateless: new Map<string, Method>([...both, ["server/discover", discover]]),
  };
}

function discover(_params: JsonObject, { view }: Exchange): JsonObject {
  return {
    supportedVersions: [STATELESS, ...NEGOTIATED],
    capabilities: CAPABILITIES,
    instructions: instructionsOf(view),
  };
}

function setLevel(deps: MethodDeps, { level }: JsonObject, exchange: Exchange): JsonObject {
  const known = readLevel(level);
  if (known === null) throw new RpcError(RPC.invalid_params, "params.level is none of the RFC 5424 levels");
  if (exchange.session !== null) exchange.session.level = known;
  deps.levelChanged(exchange, known);
  return {};
}

async function subscribe(
  { resources, subscriptions }: MethodDeps,
  { uri }: JsonObject,
  { caller, view, session, stateless }: Exchange,
): Promise<JsonObject> {
  const server = await resources.serverOf(caller, view, uri, stateless);
  if (session === null)
    throw new RpcError(RPC.invalid_request, "a subscription needs a session: send initialize first");
  const address = uri as string;
  if (session.subscriptions.has(address)) return {};
  if (session.subscriptions.size >= SUBSCRIPTIONS)
    throw new RpcError(RPC.refused, `at most ${SUBSCRIPTIONS} resources in one session; leave some first`);
  const leave = await subscriptions.hold(caller, server, address);
  session.subscriptions.get(address)?.();
  session.subscriptions.set(address, leave);
  return {};
}

function unsubscribe({ uri }: JsonObject, { session }: Exchange): JsonObject {
  if (typeof uri !== "string") throw new RpcError(RPC.invalid_params, "params.uri must be a text");
  session?.subscriptions.get(uri)?.();
  session?.subscriptions.delete(uri);
  return {};
}
