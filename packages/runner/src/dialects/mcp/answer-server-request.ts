/**
 * Answers requests from an MCP server. A ping is answered here. Sampling and elicitation are passed to the caller, or
 * declined as the protocol specifies when the call has no caller that can answer. Roots are those of the caller, or the
 * folders mounted for the server.
 */
import { pathToFileURL } from "node:url";
import { BackplaneError, isObject, type Json, type JsonObject, MCP_ERRORS } from "@backplane/contract";
import { type PendingRequest, RpcRejection } from "./rpc-channel.ts";

/** Passes a request to the caller, under the server's own key if it gave one. */
export type AnswerRequest = (method: string, params: JsonObject, key?: string) => Promise<Json>;

/** A request in flight that may have a caller to ask. */
export interface RequestWithAnswerer extends PendingRequest {
  readonly answerRequest: AnswerRequest | null;
  readonly session_id: string | null;
}

/** `answerRequest` is null if no caller can answer. `folders` are the mounts of the binding as the server sees them. */
export async function answerServerRequest(
  method: string,
  params: JsonObject,
  answerRequest: AnswerRequest | null,
  folders: readonly string[],
  key?: string,
): Promise<Json> {
  switch (method) {
    case "ping":
      return {};
    case "roots/list": {
      const mounted_roots = { roots: folders.map((path) => ({ uri: pathToFileURL(path).href, name: path })) };
      // A client with its own roots is asked. For all others the roots are the folders mounted for the server.
      return answerRequest === null
        ? mounted_roots
        : await answerRequest(method, params, key).catch(() => mounted_roots);
    }
    case "sampling/createMessage":
      if (answerRequest === null)
        throw new RpcRejection(MCP_ERRORS.rejected, "No caller can answer a sampling request for this call");
      return await answerRequest(method, params, key);
    case "elicitation/create":
      if (answerRequest === null) return { action: "cancel" };
      return withDefaults(await answerRequest(method, params, key), params.requestedSchema);
    default:
      throw new RpcRejection(MCP_ERRORS.method_not_found, `Method not found: ${method.slice(0, 100)}`);
  }
}

/** The limit per round, because each request goes to a person or a model. */
const MAX_INPUT_REQUESTS = 100;

/** Answers the input requests of a call in the stateless revision, under the server's own keys. */
export async function answerInputRequests(
  requests: JsonObject,
  answerRequest: AnswerRequest | null,
  folders: readonly string[],
): Promise<JsonObject> {
  const answers: JsonObject = {};
  if (Object.keys(requests).length > MAX_INPUT_REQUESTS) {
    throw new BackplaneError(
      "malformed_response",
      `The MCP server sent more than ${MAX_INPUT_REQUESTS} input requests at once.`,
    );
  }
  await Promise.all(
    Object.entries(requests).map(async ([key, request]) => {
      if (!isObject(request) || typeof request.method !== "string") {
        throw new BackplaneError(
          "malformed_response",
          "The MCP server sent an input request without a method.",
        );
      }
      const params = isObject(request.params) ? request.params : {};
      answers[key] = await answerServerRequest(request.method, params, answerRequest, folders, key);
    }),
  );
  return answers;
}

/**
 * Finds the caller for a server request that did not come on the response stream of a call, and therefore does not show
 * its call: any request over a pipe, for example. If the calls in flight do not all belong to one session, throws, so
 * that nobody is asked about another person's call; for `roots/list`, returns null instead. Tool calls without a caller
 * that can answer count as well, because the request may belong to one of them.
 */
export function findAnswerer(method: string, inFlight: Iterable<PendingRequest>): AnswerRequest | null {
  const origins = [...inFlight].filter(
    (pending): pending is RequestWithAnswerer => hasAnswerer(pending) || pending.method === "tools/call",
  );
  const last = origins.findLast(hasAnswerer);
  if (last === undefined) return null;
  if (
    origins.length > 1 &&
    origins.some(({ session_id }) => session_id === null || session_id !== last.session_id)
  ) {
    if (method === "roots/list") return null;
    throw new RpcRejection(
      MCP_ERRORS.internal_error,
      `${method}: calls of several sessions are in flight; retry later`,
    );
  }
  return last.answerRequest;
}

export function hasAnswerer(pending: PendingRequest): pending is RequestWithAnswerer {
  return "answerRequest" in pending && pending.answerRequest !== null;
}

/** Fills fields that an accepted form leaves out with the defaults of the schema. */
function withDefaults(answer: Json, schema: Json | undefined): Json {
  if (!isObject(answer) || answer.action !== "accept" || !isObject(schema)) return answer;
  if (!isObject(schema.properties)) return answer;
  const content = isObject(answer.content) ? { ...answer.content } : {};
  for (const [name, field] of Object.entries(schema.properties)) {
    if (content[name] !== undefined || !isObject(field) || field.default === undefined) continue;
    content[name] = field.default;
  }
  return { ...answer, content };
}
