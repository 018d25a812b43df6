/**
 * One `tools/call`. In the stateless revision its answer may request input. The call is then repeated with the
 * input until the answer requests nothing more.
 */
import { BackplaneError, isObject, type Json, type JsonObject } from "@backplane/contract";
import type { DialectCall } from "../../ports/dialect.ts";
import { acceptCall, acceptError } from "./accept-tool-result.ts";
import type { AnswerRequest, RequestWithAnswerer } from "./answer-server-request.ts";
import { type RpcFailure, rpcFailureOf } from "./rpc-channel.ts";

/** The maximum number of rounds in which the server requests input for one request. */
export const MAX_ROUNDS = 10;

/** The part of the session that a call uses. */
export interface ToolCallSession {
  readonly output_bytes: number;
  readonly stateless: boolean;
  /** False if the call could not be sent and `lost` was called. */
  dispatch(call: McpToolCall): boolean;
  /** Resolves to null if the server requested no input and only wants the call repeated. */
  collectInput(requests: Json | undefined, answerRequest: AnswerRequest | null): Promise<JsonObject | null>;
  removeCall(call: McpToolCall): void;
}

export class McpToolCall implements RequestWithAnswerer {
  readonly method = "tools/call";
  readonly exchange: DialectCall;
  readonly headers: Record<string, string>;
  readonly answerRequest: AnswerRequest | null;
  readonly session_id: string | null;
  readonly #session: ToolCallSession;
  readonly #first_params: JsonObject;
  params: JsonObject;
  rpc_id = 0;
  withdrawn = false;
  #rounds = 0;

  constructor(
    session: ToolCallSession,
    exchange: DialectCall,
    params: JsonObject,
    headers: Record<string, string>,
  ) {
    this.headers = headers;
    this.#session = session;
    this.exchange = exchange;
    this.#first_params = params;
    this.params = params;
    this.answerRequest = exchange.can_answer_requests
      ? (method, input, key) => exchange.answerRequest(method, input, key)
      : null;
    this.session_id = exchange.context.session_id ?? null;
  }

  answered(result: Json): void {
    if (needsInput(this.#session.stateless, result)) {
      void this.#provideInput(result);
      return;
    }
    this.#session.removeCall(this);
    this.exchange.answered(acceptCall(result, this.#session.output_bytes));
  }

  refused(error: RpcFailure): void {
    this.#session.removeCall(this);
    this.exchange.answered(acceptError(error));
  }

  lost(error: BackplaneError): void {
    this.#session.removeCall(this);
    this.exchange.failed(error);
  }

  progress({ progress, total, message }: JsonObject): void {
    const data: JsonObject = {};
    if (typeof progress === "number") data.progress = progress;
    if (typeof total === "number") data.total = total;
    this.exchange.event({ type: "progress", ...(typeof message === "string" ? { message } : {}), data });
  }

  log({ level, logger, data }: JsonObject): void {
    this.exchange.event({
      type: "log",
      level: typeof level === "string" ? level : "info",
      ...(typeof logger === "string" ? { logger } : {}),
      data: data ?? null,
    });
  }

  async #provideInput(result: JsonObject): Promise<void> {
    try {
      if (++this.#rounds > MAX_ROUNDS) throw tooManyRounds(this.method);
      const answers = await this.#session.collectInput(result.inputRequests, this.answerRequest);
      if (this.withdrawn) return;
      this.params = retryParams(this.#first_params, result, answers);
      this.#session.dispatch(this);
    } catch (error) {
      if (this.withdrawn) return;
      if (error instanceof BackplaneError) this.lost(error);
      else this.refused(rpcFailureOf(error));
    }
  }
}

export function needsInput(stateless: boolean, result: Json): result is JsonObject {
  return stateless && isObject(result) && result.resultType === "input_required";
}

/** Returns the parameters of the repeated request, with the requested input and the state the server wants back. */
export function retryParams(
  params: JsonObject,
  { requestState }: JsonObject,
  answers: JsonObject | null,
): JsonObject {
  return {
    ...params,
    ...(answers === null ? {} : { inputResponses: answers }),
    ...(typeof requestState === "string" ? { requestState } : {}),
  };
}

export function tooManyRounds(method: string): BackplaneError {
  return new BackplaneError(
    "malformed_response",
    `The MCP server still asks for input for ${method} after ${MAX_ROUNDS} rounds.`,
  );
}
