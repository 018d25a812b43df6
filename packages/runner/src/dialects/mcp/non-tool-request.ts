/** A request that is not a tool call, such as one for resources, prompts, completion or the list of tools. */
import { BackplaneError, type Json, type JsonObject } from "@backplane/contract";
import type { RequestListener } from "@backplane/ports";
import type { AnswerRequest, RequestWithAnswerer } from "./answer-server-request.ts";
import type { RpcFailure } from "./rpc-channel.ts";
import { MAX_ROUNDS, needsInput, retryParams, tooManyRounds } from "./tool-call.ts";

/** The part of the session that such a request uses. */
export interface Requester {
  readonly stateless: boolean;
  /** Returns the id of the request, or 0 if it could not be sent and `lost` was called. */
  send(pending: RequestWithAnswerer, params: JsonObject): number;
  withdraw(id: number, reason: string): void;
  collectInput(requests: Json | undefined, answerRequest: AnswerRequest | null): Promise<JsonObject | null>;
  after(ms: number, run: () => void): () => void;
}

const MESSAGE_CHARS = 4_000;
/** An upper bound; callers can have shorter timeouts. */
const MAX_DURATION_MS = 300_000;

/**
 * Rejects with a BackplaneError, which is `plugin_failed` when the server answers with an error, or with the error of
 * the caller that was asked for input.
 */
export async function sendNonToolRequest(
  session: Requester,
  method: string,
  first_params: JsonObject,
  listener: RequestListener | null,
  signal: AbortSignal | null,
): Promise<Json> {
  let params = first_params;
  for (let round = 0; round <= MAX_ROUNDS; round++) {
    if (signal?.aborted === true) throw lostError(method, signal);
    const result = await sendOnce(session, method, params, listener, signal);
    if (!needsInput(session.stateless, result)) return result;
    const answerRequest: AnswerRequest | null =
      listener === null ? null : (name, input, key) => listener.answerRequest(name, input, key);
    params = retryParams(
      first_params,
      result,
      await session.collectInput(result.inputRequests, answerRequest),
    );
  }
  throw tooManyRounds(method);
}

function sendOnce(
  session: Requester,
  method: string,
  params: JsonObject,
  listener: RequestListener | null,
  signal: AbortSignal | null,
): Promise<Json> {
  return new Promise((resolve, reject) => {
    const pending = new NonToolRequest(method, listener, resolve, reject);
    const id = session.send(pending, params);
    if (id === 0) return;
    const giveUp = () => {
      const error = lostError(method, signal);
      session.withdraw(id, error.code === "timeout" ? "timeout" : "cancelled");
      pending.lost(error);
    };
    const clearTimer = session.after(MAX_DURATION_MS, giveUp);
    signal?.addEventListener("abort", giveUp, { once: true });
    pending.stop = () => {
      clearTimer();
      signal?.removeEventListener("abort", giveUp);
    };
  });
}

function lostError(method: string, signal: AbortSignal | null): BackplaneError {
  return signal?.reason === "cancelled"
    ? new BackplaneError("request.cancelled")
    : new BackplaneError("timeout", `${method} was not answered in time.`);
}

export class NonToolRequest implements RequestWithAnswerer {
  readonly method: string;
  readonly answerRequest: AnswerRequest | null;
  readonly session_id = null;
  /** Clears the deadline and the abort listener of the request. */
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
    this.answerRequest =
      listener === null ? null : (name, input, key) => listener.answerRequest(name, input, key);
    this.#resolve = resolve;
    this.#reject = reject;
  }

  answered(result: Json): void {
    this.stop();
    this.#resolve(result);
  }

  /** The details keep the server's own code for callers that pass the error on. */
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
