/** `resources/read`, `prompts/get` and `completion/complete`: which server they are for, in its own names, then its answer. */
import type { JsonObject } from "@backplane/contract";
import type { Kernel, ServerInfo } from "@backplane/kernel";
import type { FastifyReply } from "fastify";
import type { Answer } from "../route.ts";
import { deliver, type DeliverDeps } from "./deliver.ts";
import { isObject, RPC, RpcError, type RpcRequest } from "./json-rpc.ts";
import type { Exchange } from "./exchange.ts";
import type { Prompts } from "./prompts.ts";
import { readResponses } from "./questions.ts";
import type { Resources } from "./resources.ts";
import { ServerWork } from "./server-work.ts";
import { openCall } from "./sessions.ts";
import type { Work } from "./work.ts";

export interface CallServerDeps extends DeliverDeps {
  kernel: Kernel;
  resources: Resources;
  prompts: Prompts;
}

type Target = { server: ServerInfo; params: JsonObject };

/** Of them, a client may be asked something before the first two alone. */
export const SERVER_METHODS: ReadonlySet<string> = new Set([
  "resources/read",
  "prompts/get",
  "completion/complete",
]);
const NO_COMPLETION: JsonObject = { completion: { values: [], total: 0, hasMore: false } };

export async function callServer(
  deps: CallServerDeps,
  request: RpcRequest,
  exchange: Exchange,
  reply: FastifyReply | null,
): Promise<Answer> {
  const { caller, session, stateless } = exchange;
  const { method, params } = request;
  const given = stateless ? readResponses(params.inputResponses) : {};
  let work: Work;
  if (stateless && params.requestState !== undefined) {
    work = deps.parked.take(caller, request, params.requestState);
    for (const [key, answer] of Object.entries(given)) work.questions.answer(key, answer as JsonObject);
  } else {
    const target = await targetOf(deps, request, exchange);
    if (target === null) return exchange.answer(request.id, NO_COMPLETION);
    const asking = method === "completion/complete" ? { ...exchange, capabilities: {} } : exchange;
    work = new ServerWork(deps.kernel, asking, { ...target, method, given });
  }
  const open = openCall(work);
  session?.calls.add(request.id, open);
  try {
    return await deliver(deps, { request, exchange, work, open }, reply);
  } finally {
    session?.calls.delete(request.id);
  }
}

/** Null: there is nothing to complete. */
async function targetOf(
  deps: CallServerDeps,
  { method, params }: RpcRequest,
  { caller, view, stateless }: Exchange,
): Promise<Target | null> {
  if (method === "resources/read") {
    const server = await deps.resources.serverOf(caller, view, params.uri, stateless);
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
    throw new RpcError(RPC.invalid_params, "params.ref and params.argument.name are required");
  const target = await completed(deps, ref, { caller, view, stateless });
  if (!isObject(target.server.capabilities.completions)) return null;
  const rest = { argument, ...(isObject(context) ? { context } : {}) };
  return { server: target.server, params: { ref: target.ref, ...rest } };
}

async function completed(
  { prompts, resources }: CallServerDeps,
  ref: JsonObject,
  { caller, view, stateless }: Pick<Exchange, "caller" | "view" | "stateless">,
): Promise<{ server: ServerInfo; ref: JsonObject }> {
  if (ref.type === "ref/prompt") {
    const { server, name } = await prompts.find(caller, view, ref.name);
    return { server, ref: { type: ref.type, name } };
  }
  if (ref.type === "ref/resource")
    return {
      server: await resources.serverOf(caller, view, ref.uri, stateless),
      ref: { type: ref.type, uri: ref.uri as string },
    };
  throw new RpcError(RPC.invalid_params, "params.ref.type is ref/prompt or ref/resource");
}
