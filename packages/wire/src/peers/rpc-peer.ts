/**
 * JSON-RPC 2.0 over NDJSON, both directions on one pipe: batches, notifications and error codes as its
 * specification says. A line that is not JSON is answered with -32700 and the stream goes on; a line over
 * the limit or the end of the stream is final and rejects every pending call.
 */
import {
  BackplaneError,
  codeOf,
  IdTable,
  type Json,
  type JsonObject,
  toBackplaneError,
} from "@backplane/contract";
import type { FrameLimits } from "../limits.ts";
import type { Transport } from "../transports/transport.ts";
import {
  checkRpcRequest,
  checkRpcResponse,
  isRpcId,
  isRpcResponse,
  RPC_CODES,
  type RpcId,
} from "./check-rpc.ts";
import { isObject } from "./check-vai.ts";
import { Connection, MAX_QUEUED_BYTES } from "./connection.ts";

export interface RpcPeerOptions {
  transport: Transport;
  limits?: Partial<FrameLimits>;
  max_queued_bytes?: number;
  /** Throw an RpcError to choose code and message; without `handle` every method is unknown. */
  handle?(method: string, params: unknown): Promise<unknown>;
  /** At most once; all pending calls have been rejected with the same error. */
  onFailure(error: BackplaneError): void;
}

/** What the other side answered, or what handle() wants answered. */
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
  timer: NodeJS.Timeout | undefined;
}

/** A batch is one line, but its answer can be many times longer; so is the work it asks for. */
const MAX_BATCH = 1_000;
const MAX_RUNNING = 1_000;

export class RpcPeer {
  readonly #options: RpcPeerOptions;
  readonly #connection: Connection<Json>;
  readonly #maxQueued: number;
  readonly #pending = new IdTable<PendingCall, number>();
  #nextId = 1;
  #running = 0;
  #failure: BackplaneError | undefined;

  constructor(options: RpcPeerOptions) {
    this.#options = options;
    this.#maxQueued = options.max_queued_bytes ?? MAX_QUEUED_BYTES;
    this.#connection = new Connection<Json>({
      transport: options.transport,
      framing: "ndjson",
      limits: options.limits,
      hold_above_bytes: this.#maxQueued,
      onFrame: (message) => this.#receive(message),
      onBadBody: (error) => this.#refuseBody(error),
      onFailure: (error) => this.#fail(error),
      onClose: (cause) =>
        this.#fail(
          new BackplaneError("crashed", "The other side closed the stream.", cause === null ? {} : { cause }),
        ),
    });
  }

  get inFlight(): number {
    return this.#pending.size;
  }

  /** Rejects with an RpcError for an error answer, else with one of our codes. */
  call(method: string, params?: JsonObject | Json[], timeout_ms?: number): Promise<Json> {
    return new Promise((resolve, reject) => {
      const refusal = this.#refuse();
      if (refusal !== undefined) return reject(refusal);
      const id = this.#nextId++;
      try {
        this.#connection.send({ jsonrpc: "2.0", id, method, params });
      } catch (error) {
        return reject(toBackplaneError(error));
      }
      const timer =
        timeout_ms === undefined ? undefined : setTimeout(() => this.#expire(id, timeout_ms), timeout_ms);
      this.#pending.add(id, { method, resolve, reject, timer });
    });
  }

  /** Throws `backpressure` when the other side does not read; nothing is sent after the end. */
  notify(method: string, params?: JsonObject | Json[]): void {
    if (this.#failure !== undefined) return;
    const refusal = this.#refuse();
    if (refusal !== undefined) throw refusal;
    this.#connection.send({ jsonrpc: "2.0", method, params });
  }

  #refuse(): BackplaneError | undefined {
    if (this.#failure !== undefined) return this.#failure;
    if (this.#connection.queuedBytes <= this.#maxQueued) return undefined;
    return new BackplaneError("backpressure", undefined, { details: { limit: this.#maxQueued } });
  }

  #receive(message: Json): void {
    if (Array.isArray(message)) this.#receiveBatch(message);
    else if (isRpcResponse(message)) this.#receiveResponse(message);
    else void this.#answerOne(message).then((answer) => this.#reply(answer));
  }

  /** Who waits for an answer that cannot be taken need not wait for the deadline. */
  #refuseBody({ message, details }: BackplaneError): void {
    const id = details?.rpc_id;
    const pending = typeof id === "number" ? this.#take(id) : undefined;
    if (pending === undefined) this.#connection.send(failure(null, RPC_CODES.parse_error, "Parse error"));
    else
      pending.reject(
        new BackplaneError("malformed_response", `The answer to ${pending.method} is not valid: ${message}`),
      );
  }

  #receiveBatch(batch: Json[]): void {
    if (batch.length === 0 || batch.length > MAX_BATCH) {
      const message =
        batch.length === 0 ? "Invalid Request" : `A batch must not hold more than ${MAX_BATCH} messages`;
      this.#connection.send(failure(null, RPC_CODES.invalid_request, message));
      return;
    }
    const answers: Promise<object | undefined>[] = [];
    for (const message of batch) {
      if (isRpcResponse(message)) this.#receiveResponse(message);
      else answers.push(this.#answerOne(message));
    }
    void Promise.all(answers).then((all) => {
      const said = all.filter((answer) => answer !== undefined);
      if (said.length > 0) this.#reply(said);
    });
  }

  /** Never rejects. Undefined for a notification, which gets no answer even when it fails. */
  async #answerOne(message: Json): Promise<object | undefined> {
    if (!isObject(message)) return failure(null, RPC_CODES.invalid_request, "Invalid Request");
    if (checkRpcRequest(message) !== undefined) {
      const id = isRpcId(message.id) ? message.id : null;
      return failure(id, RPC_CODES.invalid_request, "Invalid Request");
    }
    const id = message.id as RpcId | undefined;
    const answer = await this.#handle(message.method as string, message.params, id ?? null);
    return id === undefined ? undefined : answer;
  }

  async #handle(method: string, params: Json | undefined, id: RpcId): Promise<object> {
    const options = this.#options;
    if (options.handle === undefined) return failure(id, RPC_CODES.method_not_found, "Method not found");
    if (this.#running >= MAX_RUNNING) return failure(id, RPC_CODES.busy, "Too many requests at once");
    this.#running++;
    try {
      const result = await options.handle(method, params);
      return { jsonrpc: "2.0", id, result: result ?? null };
    } catch (error) {
      return describeFailure(id, error);
    } finally {
      this.#running--;
    }
  }

  #reply(answer: object | undefined): void {
    if (answer === undefined) return;
    try {
      this.#connection.send(answer);
    } catch (error) {
      // The result is too large or not JSON. A batch has no single id to blame.
      const id = "id" in answer ? (answer.id as RpcId) : null;
      this.#connection.send(describeFailure(id, toBackplaneError(error)));
    }
  }

  #receiveResponse(message: JsonObject): void {
    const id = message.id;
    const pending = typeof id === "number" ? this.#take(id) : undefined;
    if (pending === undefined) return;
    const problem = checkRpcResponse(message);
    if (problem !== undefined) {
      pending.reject(
        new BackplaneError("malformed_response", `The answer to ${pending.method} is not valid: ${problem}.`),
      );
    } else if (message.error === undefined) pending.resolve(message.result!);
    else {
      const error = message.error as { code: number; message: string; data?: Json };
      pending.reject(new RpcError(error.code, error.message, error.data));
    }
  }

  #expire(id: number, timeout_ms: number): void {
    const pending = this.#take(id);
    pending?.reject(
      new BackplaneError("timeout", `${pending.method} was not answered within ${timeout_ms} ms.`),
    );
  }

  #take(id: number): PendingCall | undefined {
    const pending = this.#pending.get(id);
    if (pending !== undefined) {
      this.#pending.delete(id);
      clearTimeout(pending.timer);
    }
    return pending;
  }

  #fail(error: BackplaneError): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.#connection.stop();
    for (const id of this.#pending.ids()) this.#take(id)?.reject(error);
    this.#options.onFailure(error);
  }
}

function failure(id: RpcId, code: number, message: string, data?: Json): object {
  return { jsonrpc: "2.0", id, error: data === undefined ? { code, message } : { code, message, data } };
}

/** An error that is not meant for the other side says nothing but that it happened. */
function describeFailure(id: RpcId, error: unknown): object {
  const rpc = error as { rpcCode?: unknown; data?: Json; message?: string } | null | undefined;
  if (typeof rpc?.rpcCode === "number") return failure(id, rpc.rpcCode, rpc.message ?? "", rpc.data);
  const code = codeOf(error);
  if (code === undefined || code === "internal") {
    return failure(id, RPC_CODES.internal_error, "Internal error");
  }
  return failure(id, RPC_CODES.internal_error, (error as Error).message, { code });
}
