/** The methods that answer with one result. `tools/call` and `subscriptions/listen`, which may stream, stand elsewhere. */
import type { JsonObject } from "@backplane/contract";
import type { Caller, Kernel } from "@backplane/kernel";
import type { Answer } from "../route.ts";
import { isObject, type RpcId, RPC, RpcError } from "./json-rpc.ts";
import type { ToolPages } from "./list-tools.ts";
import { type LogLevel, readLevel } from "./log-levels.ts";
import { STATELESS } from "./revisions.ts";
import type { McpSession } from "./sessions.ts";

/** One request and how it is to be answered. */
export interface Exchange {
  caller: Caller;
  session: McpSession | null;
  stateless: boolean;
  /** The client takes an event stream. */
  streams: boolean;
  /** Log messages from this level on; null: none. */
  least: LogLevel | null;
  /** The result as this revision writes it. */
  spell(result: JsonObject): JsonObject;
  answer(id: RpcId, result: JsonObject): Answer;
}

export interface MethodDeps {
  kernel: Kernel;
  pages: ToolPages;
}

type Method = (params: JsonObject, exchange: Exchange) => Promise<JsonObject> | JsonObject;
export type Methods = ReadonlyMap<string, Method>;

export const CAPABILITIES: JsonObject = {
  tools: { listChanged: true },
  resources: {},
  prompts: {},
  completions: {},
  logging: {},
};
export const INSTRUCTIONS =
  "Tools of a Backplane gateway. Every call is recorded; some wait until a person has approved them.";

/** `negotiated` of revisions up to 2025-11-25, `stateless` of those after. */
export function createMethods({ kernel, pages }: MethodDeps): { negotiated: Methods; stateless: Methods } {
  const both: [string, Method][] = [
    ["tools/list", async ({ cursor }, { caller }) => pages.page(await kernel.catalog.list(caller), cursor)],
    ["resources/list", () => ({ resources: [] })],
    ["resources/templates/list", () => ({ resourceTemplates: [] })],
    ["resources/read", readResource],
    ["prompts/list", () => ({ prompts: [] })],
    ["prompts/get", getPrompt],
    ["completion/complete", complete],
  ];
  return {
    negotiated: new Map<string, Method>([...both, ["ping", () => ({})], ["logging/setLevel", setLevel]]),
    stateless: new Map<string, Method>([...both, ["server/discover", discover]]),
  };
}

function discover(): JsonObject {
  return { supportedVersions: [STATELESS], capabilities: CAPABILITIES, instructions: INSTRUCTIONS };
}

function setLevel({ level }: JsonObject, { session }: Exchange): JsonObject {
  const known = readLevel(level);
  if (known === null) throw new RpcError(RPC.invalid_params, "params.level is none of the RFC 5424 levels");
  if (session !== null) session.level = known;
  return {};
}

function readResource({ uri }: JsonObject, { stateless }: Exchange): never {
  if (typeof uri !== "string") throw new RpcError(RPC.invalid_params, "params.uri must be a text");
  const code = stateless ? RPC.invalid_params : RPC.resource_not_found;
  throw new RpcError(code, "Resource not found", { uri: uri.slice(0, 1024) });
}

function getPrompt({ name }: JsonObject): never {
  const known =
    typeof name === "string" ? `Unknown prompt: ${name.slice(0, 128)}` : "params.name must be a text";
  throw new RpcError(RPC.invalid_params, known);
}

function complete({ ref, argument }: JsonObject): JsonObject {
  if (!isObject(ref) || !isObject(argument) || typeof argument.name !== "string")
    throw new RpcError(RPC.invalid_params, "params.ref and params.argument.name are required");
  return { completion: { values: [], total: 0, hasMore: false } };
}
