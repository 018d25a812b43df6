/**
 * JSON-RPC 2.0 over NDJSON in both directions on one pipe, with batches, notifications and error codes as specified.
 * A line that is not JSON is answered with -32700 and the stream continues. A line over the limit, a reply that may
 * belong to any pending call, or the end of the stream closes the connection and rejects all pending calls.
 */
import {
  BackplaneError,
  codeOf,
  IdTable,
  isObject,
  type Json,
  type JsonObject,
  RPC_ERRORS,
  toBackplaneError,
} from "@backplane/contract";
import type { FrameLimits } from "../codecs/limits.ts";
import type { Transport } from "../transports/transport.ts";
import {
  checkRpcRequest,
  checkRpcResponse,
  formatRpcId,
  idFromText,
  isRpcId,
  isRpcReply,
  type RpcId,
} from "./check-rpc.ts";
import { MAX_QUEUED_BYTES, WireConnection } from "./connection.ts";
import { OneWayMessages } from "./one-way-messages.ts";
import { type RequestEnding, SettledIds } from "./settled-ids.ts";
import { type StartTimer, startTimeout } from "./start-timer.ts";

/** Too many concurrent requests; a code from the implementation-defined range. */
const BUSY = -32000;

export interface RpcPeerOptions {
  transport: Transport;
  limits?: Partial<FrameLimits>;
  max_queued_bytes?: number;
  /** Timer for the timeouts of calls; defaults to setTimeout. */
  after?: StartTimer;
  /** Throws an RpcError to choose code and message. Without `handle` every method is unknown. */
  handle?(method: string, params: unknown): Promise<unknown>;
  /** Called for a reply that matches no pending call. */
  onViolation?(kind: "second_reply" | "late_reply" | "unknown_id" | "reply_without_request"): void;
  /** Called at most once, after all pending calls have been rejected with the same error. */
  onFailure(error: BackplaneError): void;
}

/** An error response from the peer, or one that `handle` wants to send. */
export class RpcError extends Error {
  readonly rpcCode: number;
  readonly data: Json | undefined;

  constructor(rpcCode: number, message: string, data?: Json) {
    super(message);
    this.name = "RpcError";
    this.rpcCode = rpcCode;
    this.data = data;
  }
}

interface PendingCall {
  method: string;
  resolve: (result: Json) => void;
  reject: (error: Error) => void;
  stopTimer: () => void;
}

/** Limits batches, because a single line could otherwise request unbounded work and a much longer response. */
const MAX_BATCH = 1_000;
const MAX_RUNNING = 1_000;
const noop = () => {};

export class RpcPeer {
  readonly #options: RpcPeerOptions;
  readonly #connection: WireConnection<Json>;
  readonly #max_queued: number;
  readonly #pending = new IdTable<PendingCall, number>();
  readonly #settled = new SettledIds();
  readonly #one_way = new OneWayMessages();
  #next_id = 1;
  #running = 0;
  #failure: BackplaneError | undefined;

  constructor(options: RpcPeerOptions) {
    this.#options = options;
    this.#max_queued = options.max_queued_bytes ?? MAX_QUEUED_BYTES;
    this.#connection = new WireConnection<Json>({
      transport: options.transport,
      framing: "ndjson",
      limits: options.limits,
      hold_above_bytes: this.#max_queued,
      onFrame: (message) => this.#receive(message),
      onBadBody: (error) => this.#rejectBody(error),
      onFailure: (error) => this.#fail(error),
      onClose: (cause) =>
        this.#fail(
          new BackplaneError("crashed", "The peer closed the stream.", cause === null ? {} : { cause }),
        ),
    });
  }

  get inFlight(): number {
    return this.#pending.size;
  }

  /** Rejects with an RpcError for an error response, otherwise with a BackplaneError. */
  call(method: string, params?: JsonObject | Json[], timeout_ms?: number): Promise<Json> {
    return new Promise((resolve, reject) => {
      const refusal = this.#refusalReason();
      if (refusal !== undefined) return reject(refusal);
      const id = this.#next_id++;
      try {
        this.#connection.send({ jsonrpc: "2.0", id, method, params });
      } catch (error) {
        return reject(toBackplaneError(error));
      }
      const after = this.#options.after ?? startTimeout;
      const stopTimer =
        timeout_ms === undefined ? noop : after(timeout_ms, () => this.#expire(id, timeout_ms));
      this.#pending.set(id, { method, resolve, reject, stopTimer });
    });
  }

  /** Throws `backpressure` if the peer does not read, or `frame_too_large`. Has no effect on a closed connection. */
  notify(method: string, params?: JsonObject | Json[]): void {
    if (this.#failure !== undefined) return;
    const refusal = this.#refusalReason();
    if (refusal !== undefined) throw refusal;
    this.#sendOneWay({ jsonrpc: "2.0", method, params });
  }

  #refusalReason(): BackplaneError | undefined {
    if (this.#failure !== undefined) return this.#failure;
    if (this.#connection.queuedBytes <= this.#max_queued) return undefined;
    return new BackplaneError("backpressure", undefined, { details: { limit: this.#max_queued } });
  }

  #receive(message: Json): void {
    if (Array.isArray(message)) this.#receiveBatch(message);
    else if (this.#isReply(message)) this.#receiveResponse(message);
    else void this.#answerOne(message).then((answer) => this.#reply(answer));
  }

  #isReply(message: Json): message is JsonObject {
    return isRpcReply(message, (id) => this.#pending.has(id));
  }

  /** Sends a message that expects no reply. */
  #sendOneWay(message: object): void {
    this.#connection.send(message);
    this.#one_way.recordSent(this.#next_id);
  }

  /**
   * A response with an invalid body fails its call immediately instead of at the deadline. Any other invalid body is
   * answered with a parse error.
   */
  #rejectBody({ message, details }: BackplaneError): void {
    const id = details?.rpc_id;
    const pending = typeof id === "number" ? this.#removePending(id, "replied") : undefined;
    if (pending === undefined) this.#sendOneWay(errorResponse(null, RPC_ERRORS.parse_error, "Parse error"));
    else pending.reject(malformed(pending.method, message));
  }

  #receiveBatch(batch: Json[]): void {
    if (batch.length === 0 || batch.length > MAX_BATCH) {
      const message =
        batch.length === 0 ? "Invalid Request" : `A batch must not contain more than ${MAX_BATCH} messages`;
      this.#sendOneWay(errorResponse(null, RPC_ERRORS.invalid_request, message));
      return;
    }
    const answers: Promise<object | undefined>[] = [];
    for (const message of batch) {
      if (this.#isReply(message)) this.#receiveResponse(message);
      else answers.push(this.#answerOne(message));
    }
    void Promise.all(answers).then((all) => {
      const responses = all.filter((answer) => answer !== undefined);
      if (responses.length > 0) this.#reply(responses);
    });
  }

  /** Never rejects. Resolves to undefined for a notification, which is not answered even if it fails. */
  async #answerOne(message: Json): Promise<object | undefined> {
    if (!isObject(message)) return errorResponse(null, RPC_ERRORS.invalid_request, "Invalid Request");
    if (checkRpcRequest(message) !== undefined) {
      const id = isRpcId(message.id) ? message.id : null;
      return errorResponse(id, RPC_ERRORS.invalid_request, "Invalid Request");
    }
    const id = message.id as RpcId | undefined;
    const answer = await this.#handle(message.method as string, message.params, id ?? null);
    return id === undefined ? undefined : answer;
  }

  async #handle(method: string, params: Json | undefined, id: RpcId): Promise<object> {
    const options = this.#options;
    if (options.handle === undefined)
      return errorResponse(id, RPC_ERRORS.method_not_found, "Method not found");
    if (this.#running >= MAX_RUNNING) return errorResponse(id, BUSY, "Too many concurrent requests");
    this.#running++;
    try {
      const result = await options.handle(method, params);
      return { jsonrpc: "2.0", id, result: result ?? null };
    } catch (error) {
      return toErrorResponse(id, error);
    } finally {
      this.#running--;
    }
  }

  #reply(answer: object | undefined): void {
    if (answer === undefined) return;
    try {
      this.#sendOneWay(answer);
    } catch (error) {
      // The result is too large or cannot be serialized. A batch has no single id for the error.
      const id = "id" in answer ? (answer.id as RpcId) : null;
      this.#sendOneWay(toErrorResponse(id, toBackplaneError(error)));
    }
  }

  #receiveResponse(message: JsonObject): void {
    const { id } = message;
    if (typeof id !== "number") {
      this.#receiveNonNumericId(message);
      return;
    }
    const pending = this.#removePending(id, "replied");
    if (pending === undefined) {
      const ending = this.#settled.get(String(id));
      if (ending === undefined) this.#options.onViolation?.("unknown_id");
      else this.#options.onViolation?.(ending === "replied" ? "second_reply" : "late_reply");
      return;
    }
    this.#one_way.recordReply(id);
    const problem = checkRpcResponse(message);
    if (problem !== undefined) pending.reject(malformed(pending.method, problem));
    else if (message.error === undefined) pending.resolve(message.result!);
    else {
      const error = message.error as { code: number; message: string; data?: Json };
      pending.reject(new RpcError(error.code, error.message, error.data));
    }
  }

  /**
   * All sent ids are numbers. A reply with any other id may belong to any pending call, unless the id is a sent number
   * written as a string.
   */
  #receiveNonNumericId(message: JsonObject): void {
    const intended = idFromText(message.id);
    const pending = intended === undefined ? undefined : this.#removePending(intended, "replied");
    if (pending !== undefined) {
      pending.reject(
        malformed(pending.method, `its id is ${formatRpcId(message.id)} and not the number ${intended}`),
      );
    } else if (intended !== undefined && intended < this.#next_id) {
      this.#options.onViolation?.("second_reply");
    } else if (this.#pending.size === 0 || this.#one_way.tolerates(message)) {
      this.#options.onViolation?.("reply_without_request");
    } else {
      const problem = `A reply matches no request: its id is ${formatRpcId(message.id)}, but all sent ids are numbers.`;
      this.#fail(new BackplaneError("malformed_response", problem));
    }
  }

  #expire(id: number, timeout_ms: number): void {
    const pending = this.#removePending(id, "abandoned");
    pending?.reject(
      new BackplaneError("timeout", `${pending.method} was not answered within ${timeout_ms} ms.`),
    );
  }

  #removePending(id: number, ending: RequestEnding): PendingCall | undefined {
    const pending = this.#pending.delete(id);
    if (pending !== undefined) {
      this.#settled.add(String(id), ending);
      pending.stopTimer();
    }
    return pending;
  }

  #fail(error: BackplaneError): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.#connection.stop();
    for (const id of this.#pending.ids()) this.#removePending(id, "abandoned")?.reject(error);
    this.#options.onFailure(error);
  }
}

function malformed(method: string, problem: string): BackplaneError {
  const sentence = problem.endsWith(".") ? problem : `${problem}.`;
  return new BackplaneError("malformed_response", `The response to ${method} is not valid: ${sentence}`);
}

function errorResponse(id: RpcId, code: number, message: string, data?: Json): object {
  return { jsonrpc: "2.0", id, error: data === undefined ? { code, message } : { code, message, data } };
}

/** The message of an unexpected error is not sent to the peer. */
function toErrorResponse(id: RpcId, error: unknown): object {
  const rpc = error as { rpcCode?: unknown; data?: Json; message?: string } | null | undefined;
  if (typeof rpc?.rpcCode === "number") return errorResponse(id, rpc.rpcCode, rpc.message ?? "", rpc.data);
  const code = codeOf(error);
  if (code === undefined || code === "internal") {
    return errorResponse(id, RPC_ERRORS.internal_error, "Internal error");
  }
  return errorResponse(id, RPC_ERRORS.internal_error, (error as Error).message, { code });
}
