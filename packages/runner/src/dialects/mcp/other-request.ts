/** One request that is no tool call: resources, prompts, completion, the list of tools. */
import { BackplaneError, type Json, type JsonObject } from "@backplane/contract";
import type { RequestListener } from "@backplane/ports";
import type { AskCaller, Asker } from "./answer-server-request.ts";
import type { RpcFailure } from "./rpc-channel.ts";
import { again, asksFirst, MAX_ROUNDS, tooManyRounds } from "./tool-call.ts";

/** What such a request needs of its session. */
export interface Requester {
  readonly stateless: boolean;
  /** The id of the request; 0 where it could not be sent and it has been told. */
  send(waiting: Asker, params: JsonObject): number;
  withdraw(id: number, reason: string): void;
  answers(requests: Json | undefined, asker: AskCaller | null): Promise<JsonObject | null>;
  after(ms: number, run: () => void): () => void;
}

const MESSAGE_CHARS = 4_000;
/** Whoever asks may have less patience. */
const LONGEST_MS = 300_000;

/** Rejects with a BackplaneError, for a server's refusal `plugin_failed`. */
export async function makeRequest(
  session: Requester,
  method: string,
  given: JsonObject,
  listener: RequestListener | null,
  signal: AbortSignal | null,
): Promise<Json> {
  let params = given;
  for (let round = 0; round <= MAX_ROUNDS; round++) {
    const result = await once(session, method, params, listener, signal);
    if (!asksFirst(session.stateless, result)) return result;
    const asker: AskCaller | null =
      listener === null ? null : (what, about, key) => listener.ask(what, about, key);
    params = again(given, result, await session.answers(result.inputRequests, asker));
  }
  throw tooManyRounds(method);
}

function once(
  session: Requester,
  method: string,
  params: JsonObject,
  listener: RequestListener | null,
  signal: AbortSignal | null,
): Promise<Json> {
  return new Promise((resolve, reject) => {
    const waiting = new OtherRequest(method, listener, resolve, reject);
    const id = session.send(waiting, params);
    if (id === 0) return;
    const takeBack = () => {
      session.withdraw(id, "timeout");
      waiting.lost(new BackplaneError("timeout", `${method} was not answered in time.`));
    };
    const late = session.after(LONGEST_MS, takeBack);
    signal?.addEventListener("abort", takeBack, { once: true });
    waiting.stop = () => {
      late();
      signal?.removeEventListener("abort", takeBack);
    };
  });
}

export class OtherRequest implements Asker {
  readonly method: string;
  readonly asker: AskCaller | null;
  readonly session_id = null;
  /** Ends its deadline. */
  stop: () => void = () => {};
  readonly #listener: RequestListener | null;
  readonly #resolve: (result: Json) => void;
  readonly #reject: (error: BackplaneError) => void;

  constructor(
    method: string,
    listener: RequestListener | null,
    resolve: (result: Json) => void,
    reject: (error: BackplaneError) => void,
  ) {
    this.method = method;
    this.#listener = listener;
    this.asker = listener === null ? null : (what, about, key) => listener.ask(what, about, key);
    this.#resolve = resolve;
    this.#reject = reject;
  }

  answered(result: Json): void {
    this.stop();
    this.#resolve(result);
  }

  /** With the server's own code in the details, for whoever passes it on. */
  refused({ code, message, data }: RpcFailure): void {
    this.stop();
    this.#reject(
      new BackplaneError("plugin_failed", message.slice(0, MESSAGE_CHARS), {
        details: { plugin_code: String(code), rpc_code: code, ...(data === undefined ? {} : { data }) },
      }),
    );
  }

  lost(error: BackplaneError): void {
    this.stop();
    this.#reject(error);
  }

  progress(params: JsonObject): void {
    this.notify("notifications/progress", params);
  }

  notify(method: string, params: JsonObject): void {
    this.#listener?.notify(method, params);
  }
}
