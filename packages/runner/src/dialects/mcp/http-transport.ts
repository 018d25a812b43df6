/**
 * MCP over streamable HTTP: every message is a POST, its answer JSON or an event stream. A stream that ends before its
 * answer is taken up again where the server gave ids for it. Up to 2025-11-25 there is a session, and a standing GET for
 * what the server says by itself.
 */
import type { ClientRequest, IncomingMessage } from "node:http";
import { BackplaneError, isObject, type JsonObject, toBackplaneError } from "@backplane/contract";
import { parseJson } from "@backplane/wire";
import type { GuardedRequests } from "../../egress/gateway-requests/guarded-requests.ts";
import type { RunnerLimits } from "../../ports/settings.ts";
import {
  type AnswerStream,
  canResume,
  followStream,
  freshStream,
  isStream,
  pauseBefore,
  type StreamEvents,
} from "./event-stream.ts";
import { answerError, answerlessError, describesError, isRefusedProbe, signInError } from "./http-errors.ts";
import { messageHeaders } from "./http-headers.ts";
import { collectBody, HttpRequests, one } from "./http-requests.ts";
import type { Agreement } from "./revisions.ts";
import type { Line, LineEvents } from "./transport.ts";

export interface HttpLineOptions {
  requests: GuardedRequests;
  limits: RunnerLimits;
  after(ms: number, run: () => void): () => void;
  /** The binding's own headers, with secrets filled in. */
  headers(secrets: Record<string, string>, config: JsonObject): Record<string, string>;
  secrets: Record<string, string>;
  config: JsonObject;
}

export class HttpLine implements Line {
  readonly shares_stream = false;
  readonly #options: HttpLineOptions;
  readonly #events: LineEvents;
  readonly #http: HttpRequests;
  readonly #streamed: StreamEvents;
  /** Who waits for an answer; null until its request is open. */
  readonly #waiting = new Map<number, ClientRequest | null>();
  #own: Record<string, string>;
  #agreement: Agreement | null = null;
  #session: string | null = null;
  /** Nothing overtakes what tells the server that it may begin. */
  #before: Promise<void> = Promise.resolve();
  #closed = false;
  #renewed: () => void = () => {};

  constructor(options: HttpLineOptions, events: LineEvents) {
    this.#options = options;
    this.#events = events;
    this.#http = new HttpRequests(options.requests);
    this.#streamed = {
      receive: (message, origin) => this.#receive(message, origin),
      violation: (kind) => events.violation(kind),
    };
    this.#own = options.headers(options.secrets, options.config);
  }

  get cancels_by_drop(): boolean {
    return true;
  }

  send(message: JsonObject, headers: Record<string, string> = {}): void {
    const body = JSON.stringify(message);
    const { message_bytes } = this.#options.limits;
    if (body.length > message_bytes) {
      throw new BackplaneError("frame_too_large", `The message is larger than ${message_bytes} bytes.`);
    }
    const { id, method } = message;
    if (typeof id === "number" && typeof method === "string") {
      this.#waiting.set(id, null);
      void this.#before.then(() => this.#post(message, body, id, headers));
    } else if (method === "notifications/initialized") {
      this.#before = this.#tell(message, body);
    } else void this.#before.then(() => this.#tell(message, body));
  }

  drop(id: number): void {
    const request = this.#waiting.get(id);
    this.#waiting.delete(id);
    request?.destroy();
  }

  agreed(agreement: Agreement | null): void {
    this.#agreement = agreement;
    if (agreement === null) this.#session = null;
    else if (!agreement.stateless) {
      void this.#before.then(() => this.#standing(freshStream(null)));
    }
  }

  refresh(secrets: Record<string, string>, config: JsonObject): void {
    const before = this.#own.authorization;
    this.#own = this.#options.headers(secrets, config);
    if (this.#own.authorization !== before) this.#renewed();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#renewed();
    this.#http.close(() => (this.#session === null ? Promise.resolve() : this.#farewell()));
  }

  async #post(message: JsonObject, body: string, id: number, headers: Record<string, string>): Promise<void> {
    if (!this.#waiting.has(id) || this.#closed) return;
    try {
      const sent = { ...headers, ...this.#headersFor(message) };
      const response = await this.#http.exchange("POST", sent, body, (request) => {
        if (!this.#waiting.has(id)) request.destroy();
        else this.#waiting.set(id, request);
      });
      if (message.method === "initialize") this.#session = one(response.headers["mcp-session-id"]);
      await this.#read(response, message, id, sent.authorization);
    } catch (error) {
      this.#lose(id, error);
    }
  }

  async #read(
    response: IncomingMessage,
    message: JsonObject,
    id: number,
    credential: string | undefined,
  ): Promise<void> {
    const status = response.statusCode ?? 0;
    if (status === 200 && isStream(response)) {
      const stream = freshStream(id);
      await this.#follow(response, stream);
      await this.#settleStream(stream);
      return;
    }
    const text = await collectBody(response, this.#options.limits.message_bytes);
    if (status === 200) return this.#receiveBody(text, id);
    if (status === 404 && this.#session !== null && message.method !== "initialize") {
      this.#waiting.delete(id);
      return this.#events.expired(id);
    }
    const asked = signInError(status, one(response.headers["www-authenticate"]) ?? undefined, credential);
    if (asked !== null) throw asked;
    // Errors of the protocol come with a status of HTTP, too.
    const error = describesError(text) ?? (isRefusedProbe(message, status) ? answerlessError(status) : null);
    if (error !== null) return this.#receive({ jsonrpc: "2.0", id, error: { ...error } }, id);
    throw answerError(status, text, response.headers.location);
  }

  #receiveBody(text: Buffer, id: number): void {
    const value = parseJson(text, this.#options.limits.json_depth);
    const messages = Array.isArray(value) ? value : [value];
    for (const message of messages) {
      if (isObject(message)) this.#receive(message, id);
      else this.#events.violation("message_invalid");
    }
    if (this.#waiting.delete(id)) {
      this.#events.lost(
        id,
        new BackplaneError("malformed_response", "The MCP server answered another request."),
      );
    }
  }

  #receive(message: JsonObject, origin: number | null): void {
    const { id, method } = message;
    if (method === undefined && typeof id === "number") this.#waiting.delete(id);
    this.#events.receive(message, origin);
  }

  #follow(response: IncomingMessage, stream: AnswerStream): Promise<void> {
    return followStream(response, stream, this.#options.limits, this.#streamed);
  }

  /** What is left of a request whose stream is over: nothing, or a new stream from where the old one ended. */
  async #settleStream(stream: AnswerStream): Promise<void> {
    const { id } = stream;
    while (id !== null && !stream.answered && this.#waiting.has(id) && !this.#closed) {
      if (!canResume(stream)) {
        throw new BackplaneError("crashed", "The MCP server closed the stream before it answered.");
      }
      stream.tries++;
      await this.#pause(stream);
      if (!this.#waiting.has(id)) return;
      const response = await this.#get(stream, (request) => this.#waiting.set(id, request)).catch(() => null);
      if (response === null) continue;
      if (response.statusCode === 200 && isStream(response)) await this.#follow(response, stream);
      else
        throw answerError(
          response.statusCode ?? 0,
          await collectBody(response, this.#options.limits.message_bytes),
        );
    }
  }

  /** What the server says by itself. One that offers no such stream is left in peace. */
  async #standing(stream: AnswerStream): Promise<void> {
    const agreement = this.#agreement;
    const session = this.#session;
    let opened = false;
    while (!this.#closed && this.#agreement === agreement) {
      try {
        const response = await this.#get(stream, () => {});
        if (response.statusCode !== 200 || !isStream(response)) {
          response.destroy();
          // It began anew, and what it had promised this session is gone with it.
          if (
            response.statusCode === 404 &&
            session !== null &&
            session === this.#session &&
            opened &&
            !this.#closed
          ) {
            this.#events.forgotten();
          }
          if (response.statusCode !== 401) return;
          // Nothing is worth saying until there is another credential.
          await new Promise<void>((resolve) => {
            this.#renewed = resolve;
          });
          continue;
        }
        opened = true;
        await this.#follow(response, stream);
      } catch {
        // Tried again like one that ended.
      }
      stream.tries++;
      await this.#pause(stream);
    }
  }

  #pause(stream: AnswerStream): Promise<void> {
    return new Promise((resolve) => {
      this.#options.after(pauseBefore(stream), resolve);
    });
  }

  #get(stream: AnswerStream, born: (request: ClientRequest) => void): Promise<IncomingMessage> {
    const headers: Record<string, string> = { ...this.#common(), accept: "text/event-stream" };
    if (stream.last_event !== null) headers["last-event-id"] = stream.last_event;
    return this.#http.exchange("GET", headers, null, born);
  }

  /** A notification, or an answer of ours; what the server makes of it is its own affair. */
  async #tell(message: JsonObject, body: string): Promise<void> {
    try {
      const response = await this.#http.exchange("POST", this.#headersFor(message), body, () => {});
      response.resume();
    } catch {
      // The next request will tell.
    }
  }

  async #farewell(): Promise<void> {
    try {
      const response = await this.#http.exchange("DELETE", this.#common(), null, () => {}, true);
      response.resume();
    } catch {
      // It forgets us by itself.
    }
  }

  #headersFor(message: JsonObject): Record<string, string> {
    return { ...this.#common(), ...messageHeaders(message) };
  }

  #common(): Record<string, string> {
    const headers: Record<string, string> = { ...this.#own };
    if (this.#session !== null) headers["mcp-session-id"] = this.#session;
    if (this.#agreement !== null) headers["mcp-protocol-version"] = this.#agreement.revision;
    return headers;
  }

  #lose(id: number, error: unknown): void {
    if (!this.#waiting.delete(id)) return;
    const known = error instanceof BackplaneError ? error : unreachable(error as NodeJS.ErrnoException);
    this.#events.lost(id, toBackplaneError(known));
  }
}

function unreachable(error: NodeJS.ErrnoException): BackplaneError {
  const why = error.code ?? error.message;
  return new BackplaneError("crashed", `The MCP server cannot be reached: ${why}.`, {
    details: { reason: why },
    cause: error,
  });
}
