/**
 * MCP over streamable HTTP: every message is a POST, its answer JSON or an event stream. A stream that ends before its
 * answer is taken up again where the server gave ids for it. Up to 2025-11-25 there is a session, and a standing GET for
 * what the server says by itself.
 */
import type { ClientRequest, IncomingMessage } from "node:http";
import { BackplaneError, type Json, type JsonObject, toBackplaneError } from "@backplane/contract";
import { parseJson } from "@backplane/wire";
import type { GuardedRequests } from "../../egress/guarded-requests.ts";
import type { RunnerLimits } from "../../settings.ts";
import { answerError, answerlessError, describesError, isRefusedProbe, signInError } from "./http-answers.ts";
import { messageHeaders } from "./http-headers.ts";
import type { Line, LineEvents } from "./line.ts";
import { type Agreement, isObject } from "./revisions.ts";
import { SseReader } from "./sse-events.ts";

export interface HttpLineOptions {
  requests: GuardedRequests;
  limits: RunnerLimits;
  after(ms: number, run: () => void): () => void;
  /** The binding's own headers, with secrets filled in. */
  headers(secrets: Record<string, string>, config: JsonObject): Record<string, string>;
  secrets: Record<string, string>;
  config: JsonObject;
}

/** Where a stream stands. */
interface Stream {
  /** The request that it answers; null for the standing one. */
  id: number | null;
  last_event: string | null;
  retry_ms: number | null;
  tries: number;
  answered: boolean;
}

const RETRY_MS = 1_000;
/** A server that asks for none must not keep us busy. */
const SHORTEST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 30_000;
const MAX_TRIES = 5;

export class HttpLine implements Line {
  readonly #options: HttpLineOptions;
  readonly #events: LineEvents;
  readonly #requests = new Map<number, ClientRequest | null>();
  readonly #others = new Set<ClientRequest>();
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
      this.#requests.set(id, null);
      void this.#before.then(() => this.#post(message, body, id, headers));
    } else if (method === "notifications/initialized") {
      this.#before = this.#tell(message, body);
    } else void this.#before.then(() => this.#tell(message, body));
  }

  drop(id: number): void {
    const request = this.#requests.get(id);
    this.#requests.delete(id);
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
    for (const request of this.#requests.values()) request?.destroy();
    for (const request of this.#others) request.destroy();
    const last = this.#session === null ? Promise.resolve() : this.#farewell();
    void last.finally(() => this.#options.requests.close());
  }

  async #post(message: JsonObject, body: string, id: number, headers: Record<string, string>): Promise<void> {
    if (!this.#requests.has(id) || this.#closed) return;
    try {
      const sent = { ...headers, ...this.#headersFor(message) };
      const response = await this.#exchange("POST", sent, body, (request) => {
        if (!this.#requests.has(id)) request.destroy();
        else this.#requests.set(id, request);
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
    const text = await this.#collect(response);
    if (status === 200) return this.#receiveBody(text, id);
    if (status === 404 && this.#session !== null && message.method !== "initialize") {
      this.#requests.delete(id);
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
    if (this.#requests.delete(id)) {
      this.#events.lost(
        id,
        new BackplaneError("malformed_response", "The MCP server answered another request."),
      );
    }
  }

  #receive(message: JsonObject, origin: number | null): void {
    const { id, method } = message;
    if (method === undefined && typeof id === "number") this.#requests.delete(id);
    this.#events.receive(message, origin);
  }

  /** Until the stream ends, by itself or by its answer. */
  async #follow(response: IncomingMessage, stream: Stream): Promise<void> {
    const { limits } = this.#options;
    const reader = new SseReader(limits.message_bytes, {
      data: (text) => this.#receiveEvent(text, stream),
      id: (value) => {
        stream.last_event = value;
      },
      retry: (ms) => {
        stream.retry_ms = Math.min(Math.max(ms, SHORTEST_RETRY_MS), LONGEST_RETRY_MS);
      },
    });
    try {
      for await (const chunk of response) {
        stream.tries = 0;
        reader.push(chunk as Buffer);
        if (stream.answered) break;
      }
    } catch (error) {
      if (error instanceof BackplaneError) throw error;
      // A broken stream is one that ended early.
    }
  }

  #receiveEvent(text: string, stream: Stream): void {
    let value: Json;
    try {
      value = parseJson(Buffer.from(text), this.#options.limits.json_depth);
    } catch {
      this.#events.violation("not_json");
      return;
    }
    for (const message of Array.isArray(value) ? value : [value]) {
      if (!isObject(message)) {
        this.#events.violation("message_invalid");
        continue;
      }
      if (stream.id !== null && message.method === undefined && message.id === stream.id)
        stream.answered = true;
      this.#receive(message, stream.id);
    }
  }

  /** What is left of a request whose stream is over: nothing, or a new stream from where the old one ended. */
  async #settleStream(stream: Stream): Promise<void> {
    const { id } = stream;
    while (id !== null && !stream.answered && this.#requests.has(id) && !this.#closed) {
      if (stream.last_event === null || stream.tries >= MAX_TRIES) {
        throw new BackplaneError("crashed", "The MCP server closed the stream before it answered.");
      }
      stream.tries++;
      await this.#pause(stream);
      if (!this.#requests.has(id)) return;
      const response = await this.#get(stream, (request) => this.#requests.set(id, request)).catch(
        () => null,
      );
      if (response === null) continue;
      if (response.statusCode === 200 && isStream(response)) await this.#follow(response, stream);
      else throw answerError(response.statusCode ?? 0, await this.#collect(response));
    }
  }

  /** What the server says by itself. One that offers no such stream is left in peace. */
  async #standing(stream: Stream): Promise<void> {
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

  #pause({ retry_ms, tries }: Stream): Promise<void> {
    const ms = retry_ms ?? Math.min(RETRY_MS * 2 ** Math.max(0, tries - 1), LONGEST_RETRY_MS);
    return new Promise((resolve) => {
      this.#options.after(ms, resolve);
    });
  }

  #get(stream: Stream, born: (request: ClientRequest) => void): Promise<IncomingMessage> {
    const headers: Record<string, string> = { ...this.#common(), accept: "text/event-stream" };
    if (stream.last_event !== null) headers["last-event-id"] = stream.last_event;
    return this.#exchange("GET", headers, null, born);
  }

  /** A notification, or an answer of ours; what the server makes of it is its own affair. */
  async #tell(message: JsonObject, body: string): Promise<void> {
    try {
      const response = await this.#exchange("POST", this.#headersFor(message), body, () => {});
      response.resume();
    } catch {
      // The next request will tell.
    }
  }

  async #farewell(): Promise<void> {
    try {
      const response = await this.#exchange("DELETE", this.#common(), null, () => {}, true);
      response.resume();
    } catch {
      // It forgets us by itself.
    }
  }

  async #exchange(
    method: string,
    headers: Record<string, string>,
    body: string | null,
    born: (request: ClientRequest) => void,
    evenClosed = false,
  ): Promise<IncomingMessage> {
    const request = await this.#options.requests.open({ method, headers });
    if (this.#closed && !evenClosed) request.destroy();
    this.#others.add(request);
    request.once("close", () => this.#others.delete(request));
    born(request);
    return await new Promise((resolve, reject) => {
      request.once("response", resolve);
      request.on("error", reject);
      // Node tells neither of an answer nor of an error when the server changes to another protocol.
      request.once("close", () => reject(new Error("it gave no answer that can be read")));
      request.end(body ?? undefined);
    });
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

  async #collect(response: IncomingMessage): Promise<Buffer> {
    const { message_bytes } = this.#options.limits;
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of response) {
      size += (chunk as Buffer).length;
      if (size > message_bytes) {
        response.destroy();
        throw new BackplaneError(
          "frame_too_large",
          `An answer is larger than ${message_bytes} bytes, which is the limit.`,
        );
      }
      chunks.push(chunk as Buffer);
    }
    return Buffer.concat(chunks);
  }

  #lose(id: number, error: unknown): void {
    if (!this.#requests.delete(id)) return;
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

function freshStream(id: number | null): Stream {
  return { id, last_event: null, retry_ms: null, tries: 0, answered: false };
}

function isStream(response: IncomingMessage): boolean {
  return (response.headers["content-type"] ?? "").toLowerCase().startsWith("text/event-stream");
}

function one(header: string | string[] | undefined): string | null {
  return (Array.isArray(header) ? header[0] : header) ?? null;
}
