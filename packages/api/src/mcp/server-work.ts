/** A request that a server behind the gateway answers, as a piece of work: what it tells and asks reaches the client. */
import { type Json, type JsonObject, toBackplaneError } from "@backplane/contract";
import type { Kernel, ServerInfo, ServerLine } from "@backplane/kernel";
import { waitsFor } from "./call-notes.ts";
import { gatewayRefusal } from "./call-result.ts";
import { isObject, isRpcError, notification, RPC, RpcError } from "./json-rpc.ts";
import { heard, levelOf } from "./log-levels.ts";
import type { Exchange } from "./exchange.ts";
import { Questions } from "./questions.ts";
import { NoteQueue, type Work } from "./work.ts";

export interface ServerRequest {
  server: ServerInfo;
  method: string;
  params: JsonObject;
  /** Answers that came with the request. */
  given: JsonObject;
}

/** A server that talks faster than its client reads loses the rest. */
const TOLD = 1_000;

interface Told {
  method: string;
  params: JsonObject;
}

export class ServerWork implements Work {
  readonly result: Promise<JsonObject>;
  readonly questions: Questions;
  readonly #told = new NoteQueue<Told>(TOLD);
  readonly #gone = new AbortController();

  constructor(kernel: Kernel, { caller, capabilities, stateless }: Exchange, request: ServerRequest) {
    const { server, method, params, given } = request;
    this.questions = new Questions(capabilities, given);
    const line: ServerLine = {
      notify: (name, about) => this.#told.put({ method: name, params: about }),
      ask: this.questions.ask,
      waiting: ({ id, approval_id }) => {
        const message = waitsFor(method, approval_id);
        const data = { message, invocation_id: id, approval_id };
        const params = { level: "notice", logger: server.name, data };
        this.#told.put({ method: "notifications/message", params });
      },
      signal: this.#gone.signal,
    };
    this.result = kernel.servers
      .request(caller, server.binding_id, method, params, line)
      .then(
        (answer) => (isObject(answer) ? answer : {}),
        (error: unknown) => {
          throw serverError(error, stateless);
        },
      )
      .finally(() => {
        this.questions.close();
        this.#told.end();
      });
    this.result.catch(() => undefined);
  }

  eager(): boolean {
    return false;
  }

  quiet(): boolean {
    return this.#told.size === 0;
  }

  /** A server ends it at its own deadline, a person's answer is not waited for; nobody wants it any more. */
  cancel(): void {
    this.questions.close();
    this.#gone.abort();
  }

  async *notes(
    { least }: Exchange,
    token: string | number | undefined,
    stop: AbortSignal,
  ): AsyncGenerator<JsonObject> {
    for await (const { method, params } of this.#told.read(stop)) {
      if (method === "notifications/progress") {
        if (token !== undefined) yield notification(method, { ...params, progressToken: token });
      } else if (method === "notifications/message") {
        if (heard(levelOf(params.level), least)) yield notification(method, params);
      }
    }
  }
}

/** For requests that nobody listens to. */
export function silent(): ServerLine {
  return { notify: () => undefined, ask: () => null };
}

/** A server's own error keeps its code; where the revisions differ in it, the client's is used. */
export function serverError(error: unknown, stateless: boolean): RpcError {
  if (isRpcError(error)) return error;
  const known = toBackplaneError(error);
  const { rpc_code, data } = known.details ?? {};
  if (typeof rpc_code !== "number") return gatewayRefusal(known);
  const missing = rpc_code === RPC.resource_not_found && stateless;
  return new RpcError(missing ? RPC.invalid_params : rpc_code, known.message, data as Json | undefined);
}
