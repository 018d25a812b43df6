/**
 * The host side of the instrument protocol: newline-delimited JSON-RPC 2.0 with many calls in flight. All responses are
 * checked, because the plugin may be written in any language.
 */
import {
  BackplaneError,
  type CheckedInstruments,
  checkInstruments,
  codeOf,
  INSTRUMENT_HEALTH_STATUSES,
  type InstrumentHealth,
  type InstrumentInvocation,
  type InstrumentMethods,
  type InstrumentReturn,
  isObject,
  type Json,
  type JsonObject,
} from "@backplane/contract";
import type { FrameLimits } from "../codecs/limits.ts";
import type { Transport } from "../transports/transport.ts";
import { isHealth, resultProblem } from "./instrument-plugin.ts";
import { RpcPeer } from "./rpc-peer.ts";
import type { StartTimer } from "./start-timer.ts";

export interface InstrumentHostOptions {
  transport: Transport;
  limits?: Partial<FrameLimits>;
  max_queued_bytes?: number;
  after?: StartTimer;
  onViolation?(kind: string): void;
  /** Called at most once, after every call in flight has been rejected with the same error. */
  onFailure(error: BackplaneError): void;
}

const MESSAGE_CHARS = 4_000;

export class InstrumentHost {
  readonly #peer: RpcPeer;

  constructor(options: InstrumentHostOptions) {
    this.#peer = new RpcPeer(options);
  }

  async initialize(params: InstrumentMethods["initialize"][0], timeout_ms: number): Promise<void> {
    const request = params as unknown as JsonObject;
    const answer = await this.#request("initialize", request, "handshake_failed", timeout_ms);
    if (isObject(answer) && answer.success === true) {
      if (answer.error === undefined || answer.error === null) return;
      throw malformed("The response to initialize has both success true and an error.");
    }
    const reason = isObject(answer) && typeof answer.error === "string" ? `: ${answer.error}` : "";
    throw new BackplaneError(
      "handshake_failed",
      `The plugin did not report success for initialize${reason.slice(0, MESSAGE_CHARS)}.`,
    );
  }

  async listInstruments(timeout_ms: number): Promise<CheckedInstruments> {
    const answer = await this.#request("listInstruments", {}, "plugin_protocol_error", timeout_ms);
    try {
      return checkInstruments(isObject(answer) ? answer.instruments : undefined);
    } catch (error) {
      throw malformed(`The plugin's list of instruments is not valid: ${(error as Error).message}.`);
    }
  }

  async invoke(call: InstrumentInvocation): Promise<InstrumentReturn> {
    const answer = await this.#request("invoke", call as unknown as JsonObject, "plugin_protocol_error");
    const problem = resultProblem(answer);
    if (problem !== null) throw malformed(`The response to invoke is not a valid result: ${problem}.`);
    return answer as unknown as InstrumentReturn;
  }

  async healthCheck(instrument: string, timeout_ms: number): Promise<InstrumentHealth> {
    const answer = await this.#request("healthCheck", { instrument }, "plugin_protocol_error", timeout_ms);
    if (isHealth(answer)) return answer;
    throw malformed(
      `The status in the response to healthCheck is not one of ${INSTRUMENT_HEALTH_STATUSES.join(", ")}.`,
    );
  }

  /** A plugin that does not support the notification ignores it, as JSON-RPC requires. */
  cancel(invocationId: string, reason: string): void {
    try {
      this.#peer.notify("cancel", { invocationId, reason });
    } catch {
      // The plugin does not read its input; it is killed when its grace period ends.
    }
  }

  /** Resolves even if the plugin responds with an error or exits without a response. */
  async shutdown(): Promise<void> {
    await this.#peer.call("shutdown", {}).catch(() => {});
  }

  async #request(
    method: string,
    params: JsonObject,
    error_code: "handshake_failed" | "plugin_protocol_error",
    timeout_ms?: number,
  ): Promise<Json> {
    try {
      return await this.#peer.call(method, params, timeout_ms);
    } catch (error) {
      if (codeOf(error) !== undefined) throw error;
      const { message, rpcCode } = error as { rpcCode: number; message: string };
      const text = `The plugin responded to ${method} with error ${rpcCode}: ${message.slice(0, MESSAGE_CHARS)}`;
      throw new BackplaneError(error_code, text, { details: { rpc_code: rpcCode } });
    }
  }
}

function malformed(message: string): BackplaneError {
  return new BackplaneError("malformed_response", message);
}
