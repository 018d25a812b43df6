/** One request that is no tool call: resources, prompts, completion, the list of tools. */
import { BackplaneError, type Json, type JsonObject } from "@backplane/contract";
import type { RequestListener } from "@backplane/kernel/ports";
import type { Asker, AskCaller } from "./answer-question.ts";
import type { RpcFailure } from "./conversation.ts";

const MESSAGE_CHARS = 4_000;

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
