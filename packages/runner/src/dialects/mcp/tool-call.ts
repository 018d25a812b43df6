/**
 * One `tools/call`. In the stateless revision its answer may be questions; it is then sent again with their answers,
 * and what the caller gets is the answer that asks nothing more.
 */
import { BackplaneError, isObject, type Json, type JsonObject } from "@backplane/contract";
import type { Exchange } from "../../ports/dialect.ts";
import { acceptCall, acceptError } from "./accept-tool-result.ts";
import type { AskCaller, Asker } from "./answer-server-request.ts";
import { type RpcFailure, refusalOf } from "./rpc-channel.ts";

/** Rounds of questions that one request may take. */
export const MAX_ROUNDS = 10;

/** What a call needs of its session. */
export interface Caller {
  readonly output_bytes: number;
  readonly stateless: boolean;
  /** False: it could not be sent, and the call has been told. */
  dispatch(call: ToolCall): boolean;
  /** Null: nothing was asked, it is only to come again. */
  answers(requests: Json | undefined, asker: AskCaller | null): Promise<JsonObject | null>;
  over(call: ToolCall): void;
}

export class ToolCall implements Asker {
  readonly method = "tools/call";
  readonly exchange: Exchange;
  readonly headers: Record<string, string>;
  readonly asker: AskCaller | null;
  readonly session_id: string | null;
  readonly #caller: Caller;
  readonly #given: JsonObject;
  params: JsonObject;
  rpc_id = 0;
  withdrawn = false;
  #rounds = 0;

  constructor(caller: Caller, exchange: Exchange, params: JsonObject, headers: Record<string, string>) {
    this.headers = headers;
    this.#caller = caller;
    this.exchange = exchange;
    this.#given = params;
    this.params = params;
    this.asker = exchange.can_ask ? (method, about, key) => exchange.ask(method, about, key) : null;
    this.session_id = exchange.context.session_id ?? null;
  }

  answered(result: Json): void {
    if (asksFirst(this.#caller.stateless, result)) {
      void this.#answerFirst(result);
      return;
    }
    this.#caller.over(this);
    this.exchange.answered(acceptCall(result, this.#caller.output_bytes));
  }

  refused(error: RpcFailure): void {
    this.#caller.over(this);
    this.exchange.answered(acceptError(error));
  }

  lost(error: BackplaneError): void {
    this.#caller.over(this);
    this.exchange.broke(error);
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

  async #answerFirst(result: JsonObject): Promise<void> {
    try {
      if (++this.#rounds > MAX_ROUNDS) throw tooManyRounds(this.method);
      const answers = await this.#caller.answers(result.inputRequests, this.asker);
      if (this.withdrawn) return;
      this.params = again(this.#given, result, answers);
      this.#caller.dispatch(this);
    } catch (error) {
      if (this.withdrawn) return;
      if (error instanceof BackplaneError) this.lost(error);
      else this.refused(refusalOf(error));
    }
  }
}

export function asksFirst(stateless: boolean, result: Json): result is JsonObject {
  return stateless && isObject(result) && result.resultType === "input_required";
}

/** The same request once more, with what it asked for and the state it gave us to keep. */
export function again(
  given: JsonObject,
  { requestState }: JsonObject,
  answers: JsonObject | null,
): JsonObject {
  return {
    ...given,
    ...(answers === null ? {} : { inputResponses: answers }),
    ...(typeof requestState === "string" ? { requestState } : {}),
  };
}

export function tooManyRounds(method: string): BackplaneError {
  return new BackplaneError(
    "malformed_response",
    `${method} still asks for more after ${MAX_ROUNDS} rounds.`,
  );
}
