/**
 * Requests and replies on one transport, in both directions. Each request that is not forgotten settles once: answered,
 * refused by the server, or lost. Ids are never reused, so a late reply matches no request.
 */
import {
  BackplaneError,
  IdTable,
  isObject,
  type Json,
  type JsonObject,
  MCP_ERRORS,
} from "@backplane/contract";
import {
  checkRpcResponse,
  formatRpcId,
  idFromText,
  isRpcReply,
  OneWayMessages,
  SettledIds,
} from "@backplane/wire";
import type { ProcessLink } from "../../ports/dialect.ts";
import type { McpTransport, TransportEvents } from "./transport.ts";

/** A request without a reply yet. Unless it is forgotten, exactly one of answered, refused and lost is called, once. */
export interface PendingRequest {
  readonly method: string;
  /** Sent with the message by transports that have headers. */
  readonly headers?: Record<string, string>;
  answered(result: Json): void;
  refused(error: RpcFailure): void;
  lost(error: BackplaneError): void;
  progress?(params: JsonObject): void;
}

export interface RpcFailure {
  code: number;
  message: string;
  data?: Json;
}

/** An error with a code that is sent to the server. */
export class RpcRejection extends Error {
  readonly rpc: RpcFailure;

  constructor(code: number, message: string, data?: Json) {
    super(message);
    this.rpc = data === undefined ? { code, message } : { code, message, data };
  }
}

export interface RpcChannelEvents {
  /** A request from the server. Throw an RpcRejection to choose the error that the server gets. */
  onRequest(method: string, params: JsonObject, origin: PendingRequest | null): Promise<Json>;
  onNotification(method: string, params: JsonObject, origin: PendingRequest | null): void;
  reportViolation(kind: string): void;
  reportStrayOutput(text: string): void;
  reportFailure(error: BackplaneError): void;
  /** Called when the server lost the session. Resolves when there is a new one, in which the request is sent again. */
  reopenSession(): Promise<void>;
}

interface SentRequest {
  pending: PendingRequest;
  message: JsonObject;
  renewed: boolean;
}

/** The maximum number of requests from the server in progress at a time. */
const MAX_SERVER_REQUESTS = 100;

export class RpcChannel implements TransportEvents {
  readonly #events: RpcChannelEvents;
  readonly #open = new IdTable<SentRequest, number>();
  readonly #settled = new SettledIds();
  readonly #one_way = new OneWayMessages();
  readonly transport: McpTransport;
  #next_id = 1;
  #requests_in_progress = 0;
  #failure: BackplaneError | null = null;

  constructor(createTransport: (events: TransportEvents) => McpTransport, events: RpcChannelEvents) {
    this.#events = events;
    this.transport = createTransport(this);
  }

  /** The error that ended the channel; null while it works. */
  get error(): BackplaneError | null {
    return this.#failure;
  }

  /** Returns the id of the request, or 0 if it could not be sent and `lost` was called. */
  send(pending: PendingRequest, params: (id: number) => JsonObject): number {
    const id = this.#next_id++;
    if (this.#failure !== null) {
      pending.lost(this.#failure);
      return 0;
    }
    const message = { jsonrpc: "2.0", id, method: pending.method, params: params(id) };
    // Added first, because a transport can report a failure from inside `send`.
    this.#open.set(id, { pending, message, renewed: false });
    try {
      this.transport.send(message, pending.headers);
    } catch (error) {
      this.reportLost(id, error as BackplaneError);
      return 0;
    }
    return id;
  }

  notify(method: string, params?: JsonObject): void {
    if (this.#failure !== null) return;
    try {
      this.transport.send(
        params === undefined ? { jsonrpc: "2.0", method } : { jsonrpc: "2.0", method, params },
      );
      this.#one_way.recordSent(this.#next_id);
    } catch {
      // The server does not read its input. Requests to it fail with the reason; a notification is dropped.
    }
  }

  /** Drops a request that no longer needs an answer. */
  forget(id: number): void {
    if (this.#open.delete(id) !== undefined) this.transport.drop(id);
  }

  *inFlight(): Iterable<PendingRequest> {
    for (const { pending } of this.#open.values()) yield pending;
  }

  receive(message: JsonObject, origin: number | null): void {
    const { method, id } = message;
    const is_reply: boolean = isRpcReply(message, (id) => this.#open.has(id));
    if (is_reply) {
      this.#receiveResponse(message, origin);
      return;
    }
    if (message.jsonrpc !== "2.0") {
      this.#events.reportViolation("message_invalid");
      return;
    }
    const { params = {} } = message;
    if (typeof method !== "string" || !isObject(params)) {
      this.#events.reportViolation("message_invalid");
      return;
    }
    const from = origin === null ? null : this.#pendingFor(origin);
    if (id === undefined) this.#receiveNotification(method, params, from);
    else if (typeof id === "string" || typeof id === "number") void this.#answer(id, method, params, from);
    else this.#events.reportViolation("message_invalid");
  }

  reportLost(id: number, error: BackplaneError): void {
    const sent = this.#open.get(id);
    this.#open.delete(id);
    sent?.pending.lost(error);
  }

  reportExpired(id: number): void {
    const sent = this.#open.get(id);
    if (sent === undefined) return;
    if (sent.renewed) {
      this.reportLost(
        id,
        new BackplaneError("crashed", "The MCP server drops each new session immediately."),
      );
      return;
    }
    sent.renewed = true;
    this.#events.reopenSession().then(
      () => this.#resend(id, sent),
      (error: BackplaneError) => this.reportLost(id, error),
    );
  }

  reportSessionLost(): void {
    // The next request reports the error.
    this.#events.reopenSession().catch(() => {});
  }

  reportViolation(kind: string): void {
    this.#events.reportViolation(kind);
  }

  reportStrayOutput(text: string): void {
    this.#events.reportStrayOutput(text);
  }

  reportFailure(error: BackplaneError): void {
    if (this.#failure !== null) return;
    this.#failure = error;
    for (const id of this.#open.ids()) this.reportLost(id, error);
    this.#events.reportFailure(error);
  }

  #pendingFor(id: number): PendingRequest | null {
    return this.#open.get(id)?.pending ?? null;
  }

  #resend(id: number, { message, pending }: SentRequest): void {
    if (!this.#open.has(id)) return;
    try {
      this.transport.send(message, pending.headers);
    } catch (error) {
      this.reportLost(id, error as BackplaneError);
    }
  }

  #receiveResponse(message: JsonObject, origin: number | null): void {
    const { id, result } = message;
    const sent = typeof id === "number" ? this.#open.delete(id) : undefined;
    if (sent === undefined || typeof id !== "number") {
      this.#receiveMisdirected(message, origin);
      return;
    }
    this.#settled.add(String(id), "replied");
    this.#one_way.recordReply(id);
    const problem = checkRpcResponse(message);
    if (problem !== undefined) {
      sent.pending.lost(malformed(sent.pending.method, problem));
      return;
    }
    if (message.error === undefined) {
      sent.pending.answered(result!);
      return;
    }
    const { code, message: reason, data } = message.error as unknown as RpcFailure;
    sent.pending.refused(data === undefined ? { code, message: reason } : { code, message: reason, data });
  }

  /** Handles a reply whose id matches no open request. */
  #receiveMisdirected(message: JsonObject, origin: number | null): void {
    const { id } = message;
    const intended = typeof id === "number" ? id : idFromText(id);
    const is_open = intended !== undefined && this.#open.has(intended);
    if (
      intended !== undefined &&
      !is_open &&
      Number.isInteger(intended) &&
      intended >= 1 &&
      intended < this.#next_id
    ) {
      // A late answer after a cancel is allowed by the protocol; a second answer is a violation.
      if (this.#settled.get(String(intended)) === "replied") this.#events.reportViolation("second_reply");
      return;
    }
    const request = is_open ? intended : origin;
    if (request !== null && this.#open.has(request)) {
      this.#loseMalformed(request, `its id is ${formatRpcId(id)} instead of the number ${request}`);
      return;
    }
    const belongs_to_request = typeof id !== "number" && this.transport.shares_stream && this.#open.size > 0;
    if (!belongs_to_request || this.#one_way.tolerates(message))
      this.#events.reportViolation("answer_unknown");
    else {
      const problem = `A response of the MCP server matches no request: its id is ${formatRpcId(id)}, but all request ids are numbers.`;
      this.reportFailure(new BackplaneError("malformed_response", problem));
    }
  }

  #loseMalformed(id: number, problem: string): void {
    const sent = this.#open.delete(id);
    if (sent === undefined) return;
    this.#settled.add(String(id), "replied");
    this.transport.drop(id);
    sent.pending.lost(malformed(sent.pending.method, problem));
  }

  #receiveNotification(method: string, params: JsonObject, from: PendingRequest | null): void {
    if (method !== "notifications/progress") {
      this.#events.onNotification(method, params, from);
      return;
    }
    const token = params.progressToken;
    if (typeof token === "number") this.#pendingFor(token)?.progress?.(params);
  }

  async #answer(
    id: string | number,
    method: string,
    params: JsonObject,
    from: PendingRequest | null,
  ): Promise<void> {
    const answer = await this.#createAnswer(method, params, from);
    if (this.#failure !== null) return;
    try {
      this.transport.send({ jsonrpc: "2.0", id, ...answer });
      this.#one_way.recordSent(this.#next_id);
    } catch {
      this.#events.reportViolation("answer_not_read");
    }
  }

  async #createAnswer(method: string, params: JsonObject, from: PendingRequest | null): Promise<JsonObject> {
    if (this.#requests_in_progress >= MAX_SERVER_REQUESTS) {
      return { error: { code: MCP_ERRORS.internal_error, message: "too many requests at once" } };
    }
    this.#requests_in_progress++;
    try {
      return { result: await this.#events.onRequest(method, params, from) };
    } catch (error) {
      return { error: { ...rpcFailureOf(error) } };
    } finally {
      this.#requests_in_progress--;
    }
  }
}

function malformed(method: string, problem: string): BackplaneError {
  return new BackplaneError("malformed_response", `The answer to ${method} is invalid: ${problem}.`);
}

/** Passes on the code, message and data of an RpcRejection or of a client's error. Any other error is hidden. */
export function rpcFailureOf(error: unknown): RpcFailure {
  if (error instanceof RpcRejection) return error.rpc;
  const { rpcCode, code, message, data } = error as {
    rpcCode?: unknown;
    code?: unknown;
    message?: unknown;
    data?: Json;
  };
  const number = typeof rpcCode === "number" ? rpcCode : code;
  if (typeof number !== "number" || typeof message !== "string") {
    return { code: MCP_ERRORS.internal_error, message: "the request could not be answered" };
  }
  return data === undefined ? { code: number, message } : { code: number, message, data };
}

export type RpcReply =
  | { kind: "answered"; result: Json }
  | { kind: "refused"; error: RpcFailure }
  | { kind: "lost"; error: BackplaneError }
  | { kind: "late" };

export function requestWithTimeout(
  channel: RpcChannel,
  link: ProcessLink,
  method: string,
  params: JsonObject,
  timeout_ms: number,
): Promise<RpcReply> {
  return new Promise((resolve) => {
    let stop = () => {};
    const settle = (reply: RpcReply) => {
      stop();
      resolve(reply);
    };
    const id = channel.send(
      {
        method,
        answered: (result) => settle({ kind: "answered", result }),
        refused: (error) => settle({ kind: "refused", error }),
        lost: (error) => settle({ kind: "lost", error }),
      },
      () => params,
    );
    if (id === 0) return;
    stop = link.after(timeout_ms, () => {
      channel.forget(id);
      resolve({ kind: "late" });
    });
  });
}
