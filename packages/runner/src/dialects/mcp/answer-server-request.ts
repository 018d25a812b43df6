/**
 * What a server asks of its client. A ping is answered here; sampling, elicitation and roots are
 * put to whoever made the call, and declined in the words of the protocol where nobody can be asked.
 */
import { pathToFileURL } from "node:url";
import { BackplaneError, isObject, type Json, type JsonObject } from "@backplane/contract";
import { RPC } from "./revisions.ts";
import { Refusal, type Waiting } from "./rpc-channel.ts";

/** Asks whoever made the call, under the server's own name of the question where it has one. */
export type AskCaller = (method: string, params: JsonObject, key?: string) => Promise<Json>;

/** Something in flight that may have somebody behind it to be asked. */
export interface Asker extends Waiting {
  readonly asker: AskCaller | null;
  readonly session_id: string | null;
}

/** `asker` null: nobody is there. `folders` are the mounts of the binding as the server sees them. */
export async function answerQuestion(
  method: string,
  params: JsonObject,
  asker: AskCaller | null,
  folders: readonly string[],
  key?: string,
): Promise<Json> {
  switch (method) {
    case "ping":
      return {};
    case "roots/list": {
      const given = { roots: folders.map((path) => ({ uri: pathToFileURL(path).href, name: path })) };
      // A client that has roots of its own is asked; everybody else's are the folders that the server was given.
      return asker === null ? given : await asker(method, params, key).catch(() => given);
    }
    case "sampling/createMessage":
      if (asker === null)
        throw new Refusal(RPC.rejected, "Nobody can answer a sampling request for this call");
      return await asker(method, params, key);
    case "elicitation/create":
      if (asker === null) return { action: "cancel" };
      return withDefaults(await asker(method, params, key), params.requestedSchema);
    default:
      throw new Refusal(RPC.method_not_found, `Method not found: ${method.slice(0, 100)}`);
  }
}

/** Of one round; each is put to a person or a model. */
const MAX_QUESTIONS = 100;

/** What a call of the stateless revision was asked, answered under the server's own keys. */
export async function answerAll(
  requests: JsonObject,
  asker: AskCaller | null,
  folders: readonly string[],
): Promise<JsonObject> {
  const answers: JsonObject = {};
  if (Object.keys(requests).length > MAX_QUESTIONS) {
    throw new BackplaneError(
      "malformed_response",
      `The MCP server asks more than ${MAX_QUESTIONS} questions at one time.`,
    );
  }
  await Promise.all(
    Object.entries(requests).map(async ([key, request]) => {
      if (!isObject(request) || typeof request.method !== "string") {
        throw new BackplaneError("malformed_response", "The MCP server asks something without a method.");
      }
      const params = isObject(request.params) ? request.params : {};
      answers[key] = await answerQuestion(request.method, params, asker, folders, key);
    }),
  );
  return answers;
}

/**
 * Whose question is it? A pipe does not say, so it is sure only where one call, or the calls of one session, are under
 * way; another person's client is never asked by guess.
 */
export function askerAmong(method: string, inFlight: Iterable<Waiting>): AskCaller | null {
  const askers = [...inFlight].filter(canAsk);
  const last = askers.at(-1);
  if (last === undefined) return null;
  if (
    askers.length > 1 &&
    askers.some(({ session_id }) => session_id === null || session_id !== last.session_id)
  ) {
    throw new Refusal(RPC.internal, `${method}: calls of several sessions are under way; ask again later`);
  }
  return last.asker;
}

export function canAsk(waiting: Waiting): waiting is Asker {
  return "asker" in waiting && waiting.asker !== null;
}

/** A field that an accepted form leaves out has the default that its schema names. */
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
