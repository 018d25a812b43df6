/**
 * MCP over streamable HTTP: each message is a POST whose response is JSON or an event stream. A stream that ends
 * without its answer is resumed if the server sent event ids. Revisions up to 2025-11-25 have a session and a GET
 * stream for messages that the server sends on its own.
 */
import type { ClientRequest, IncomingMessage } from "node:http";
import { BackplaneError, isObject, type JsonObject, toBackplaneError } from "@backplane/contract";
import { parseJson } from "@backplane/wire";
import type { GuardedRequests } from "../../egress/gateway-requests/guarded-requests.ts";
import type { RunnerLimits } from "../../ports/settings.ts";
import {
  type EventStream,
  canResume,
  createStream,
  followStream,
  isStream,
  retryDelayMs,
  type StreamEvents,
} from "./event-stream.ts";
import { httpError, isRefusedProbe, probeRejection, readRpcError, signInError } from "./http-errors.ts";
import { messageHeaders } from "./http-headers.ts";
import { collectBody, HttpRequests, responseHeader } from "./http-requests.ts";
import type { Agreement } from "./revisions.ts";
import type { McpTransport, TransportEvents } from "./transport.ts";

export interface HttpTransportOptions {
  requests: GuardedRequests;
  limits: RunnerLimits;
  after(ms: number, run: () => void): () => void;
  /** The binding's own headers, with secrets filled in. */
  headers(secrets: Record<string, string>, config: JsonObject): Record<string, string>;
  secrets: Record<string, string>;
  config: JsonObject;
}

export class HttpTransport implements McpTransport {
  readonly shares_stream = false;
  readonly #options: HttpTransportOptions;
  readonly #events: TransportEvents;
  readonly #http: HttpRequests;
  readonly #stream_events: StreamEvents;
  /** Requests without an answer yet. Null until the HTTP request is open. */
  readonly #pending = new Map<number, ClientRequest | null>();
  #binding_headers: Record<string, string>;
  #agreement: Agreement | null = null;
  #session: string | null = null;
  /** Pending delivery of `notifications/initialized`, which no other message may overtake. */
  #initialized: Promise<void> = Promise.resolve();
  #closed = false;
  #onCredentialChange: () => void = () => {};

  constructor(options: HttpTransportOptions, events: TransportEvents) {
    this.#options = options;
    this.#events = events;
    this.#http = new HttpRequests(options.requests);
    this.#stream_events = {
      receive: (message, origin) => this.#receive(message, origin),
      reportViolation: (kind) => events.reportViolation(kind),
    };
    this.#binding_headers = options.headers(options.secrets, options.config);
  }

  get cancels_by_drop(): boolean {
    return true;
  }

  send(message: JsonObject, headers: Record<string, string> = {}): void {
    const body = JSON.stringify(message);
    const { message_bytes } = this.#options.limits;
    if (body.length > message_bytes) {
      throw new BackplaneError(
        "frame_too_large",
        `The message to the MCP server exceeds the limit of ${message_bytes} bytes.`,
      );
    }
    const { id, method } = message;
    if (typeof id === "number" && typeof method === "string") {
      this.#pending.set(id, null);
      void this.#initialized.then(() => this.#post(message, body, id, headers));
    } else if (method === "notifications/initialized") {
      this.#initialized = this.#postNotification(message, body);
    } else void this.#initialized.then(() => this.#postNotification(message, body));
  }

  drop(id: number): void {
    const request = this.#pending.get(id);
    this.#pending.delete(id);
    request?.destroy();
  }

  setAgreement(agreement: Agreement | null): void {
    this.#agreement = agreement;
    if (agreement === null) this.#session = null;
    else if (!agreement.stateless) {
      void this.#initialized.then(() => this.#listen(createStream(null)));
    }
  }

  refresh(secrets: Record<string, string>, config: JsonObject): void {
    const previous_authorization = this.#binding_headers.authorization;
    this.#binding_headers = this.#options.headers(secrets, config);
    if (this.#binding_headers.authorization !== previous_authorization) this.#onCredentialChange();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#onCredentialChange();
    this.#http.close(() => (this.#session === null ? Promise.resolve() : this.#endSession()));
  }

  async #post(message: JsonObject, body: string, id: number, headers: Record<string, string>): Promise<void> {
    if (!this.#pending.has(id) || this.#closed) return;
    try {
      const request_headers = { ...headers, ...this.#headersFor(message) };
      const response = await this.#http.exchange("POST", request_headers, body, (request) => {
        if (!this.#pending.has(id)) request.destroy();
        else this.#pending.set(id, request);
      });
      if (message.method === "initialize") this.#session = responseHeader(response.headers["mcp-session-id"]);
      await this.#readResponse(response, message, id, request_headers.authorization);
    } catch (error) {
      this.#failRequest(id, error);
    }
  }

  async #readResponse(
    response: IncomingMessage,
    message: JsonObject,
    id: number,
    credential: string | undefined,
  ): Promise<void> {
    const status = response.statusCode ?? 0;
    if (status === 200 && isStream(response)) {
      const stream = createStream(id);
      await this.#follow(response, stream);
      await this.#settleStream(stream);
      return;
    }
    const text = await collectBody(response, this.#options.limits.message_bytes);
    if (status === 200) return this.#receiveBody(text, id);
    if (status === 404 && this.#session !== null && message.method !== "initialize") {
      this.#pending.delete(id);
      return this.#events.reportExpired(id);
    }
    const sign_in_error = signInError(
      status,
      responseHeader(response.headers["www-authenticate"]) ?? undefined,
      credential,
    );
    if (sign_in_error !== null) throw sign_in_error;
    // JSON-RPC errors can also come with an HTTP error status.
    const error = readRpcError(text) ?? (isRefusedProbe(message, status) ? probeRejection(status) : null);
    if (error !== null) return this.#receive({ jsonrpc: "2.0", id, error: { ...error } }, id);
    throw httpError(status, text, response.headers.location);
  }

  #receiveBody(text: Buffer, id: number): void {
    const value = parseJson(text, this.#options.limits.json_depth);
    const messages = Array.isArray(value) ? value : [value];
    for (const message of messages) {
      if (isObject(message)) this.#receive(message, id);
      else this.#events.reportViolation("message_invalid");
    }
    if (this.#pending.delete(id)) {
      this.#events.reportLost(
        id,
        new BackplaneError("malformed_response", "The MCP server's response does not answer the request."),
      );
    }
  }

  #receive(message: JsonObject, origin: number | null): void {
    const { id, method } = message;
    if (method === undefined && typeof id === "number") this.#pending.delete(id);
    this.#events.receive(message, origin);
  }

  #follow(response: IncomingMessage, stream: EventStream): Promise<void> {
    return followStream(response, stream, this.#options.limits, this.#stream_events);
  }

  /** Resumes the stream of a request until the answer has arrived. */
  async #settleStream(stream: EventStream): Promise<void> {
    const { id } = stream;
    while (id !== null && !stream.answered && this.#pending.has(id) && !this.#closed) {
      if (!canResume(stream)) {
        throw new BackplaneError("crashed", "The MCP server closed the stream before it answered.");
      }
      stream.tries++;
      await this.#waitBeforeRetry(stream);
      if (!this.#pending.has(id)) return;
      const response = await this.#get(stream, (request) => this.#pending.set(id, request)).catch(() => null);
      if (response === null) continue;
      if (response.statusCode === 200 && isStream(response)) await this.#follow(response, stream);
      else
        throw httpError(
          response.statusCode ?? 0,
          await collectBody(response, this.#options.limits.message_bytes),
        );
    }
  }

  /** Receives messages that the server sends on its own. Ends quietly when the server offers no such stream. */
  async #listen(stream: EventStream): Promise<void> {
    const agreement = this.#agreement;
    const session = this.#session;
    let opened = false;
    while (!this.#closed && this.#agreement === agreement) {
      try {
        const response = await this.#get(stream, () => {});
        if (response.statusCode !== 200 || !isStream(response)) {
          response.destroy();
          // The server has restarted and lost the session with its subscriptions.
          if (
            response.statusCode === 404 &&
            session !== null &&
            session === this.#session &&
            opened &&
            !this.#closed
          ) {
            this.#events.reportSessionLost();
          }
          if (response.statusCode !== 401) return;
          // The server rejects every request until the credential changes.
          await new Promise<void>((resolve) => {
            this.#onCredentialChange = resolve;
          });
          continue;
        }
        opened = true;
        await this.#follow(response, stream);
      } catch {
        // Retried like a stream that ended.
      }
      stream.tries++;
      await this.#waitBeforeRetry(stream);
    }
  }

  #waitBeforeRetry(stream: EventStream): Promise<void> {
    return new Promise((resolve) => {
      this.#options.after(retryDelayMs(stream), resolve);
    });
  }

  #get(stream: EventStream, onRequest: (request: ClientRequest) => void): Promise<IncomingMessage> {
    const headers: Record<string, string> = { ...this.#commonHeaders(), accept: "text/event-stream" };
    if (stream.last_event_id !== null) headers["last-event-id"] = stream.last_event_id;
    return this.#http.exchange("GET", headers, null, onRequest);
  }

  /** Sends a notification or a reply. The response of the server is ignored. */
  async #postNotification(message: JsonObject, body: string): Promise<void> {
    try {
      const response = await this.#http.exchange("POST", this.#headersFor(message), body, () => {});
      response.resume();
    } catch {
      // The next request reports the failure.
    }
  }

  async #endSession(): Promise<void> {
    try {
      const response = await this.#http.exchange("DELETE", this.#commonHeaders(), null, () => {}, true);
      response.resume();
    } catch {
      // The session ends after the server's own timeout.
    }
  }

  #headersFor(message: JsonObject): Record<string, string> {
    return { ...this.#commonHeaders(), ...messageHeaders(message) };
  }

  #commonHeaders(): Record<string, string> {
    const headers: Record<string, string> = { ...this.#binding_headers };
    if (this.#session !== null) headers["mcp-session-id"] = this.#session;
    if (this.#agreement !== null) headers["mcp-protocol-version"] = this.#agreement.revision;
    return headers;
  }

  #failRequest(id: number, error: unknown): void {
    if (!this.#pending.delete(id)) return;
    const known = error instanceof BackplaneError ? error : unreachable(error as NodeJS.ErrnoException);
    this.#events.reportLost(id, toBackplaneError(known));
  }
}

function unreachable(error: NodeJS.ErrnoException): BackplaneError {
  const reason = error.code ?? error.message;
  return new BackplaneError("crashed", `The MCP server cannot be reached: ${reason}.`, {
    details: { reason },
    cause: error,
  });
}
