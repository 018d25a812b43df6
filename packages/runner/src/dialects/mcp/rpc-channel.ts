/**
 * Requests and their answers on one line, in both directions. Every request settles once: answered, refused by the
 * server, or lost. Ids are ours and never come again, so that an answer after its time finds nobody and harms nothing.
 */
import { BackplaneError, IdTable, isObject, type Json, type JsonObject } from "@backplane/contract";
import {
  checkRpcResponse,
  idFromText,
  isRpcReply,
  OneWayMessages,
  SettledIds,
  shownId,
} from "@backplane/wire";
import type { Link } from "../../ports/dialect.ts";
import { RPC } from "./revisions.ts";
import type { Line, LineEvents } from "./transport.ts";

/** Who waits for an answer. Exactly one of the first three, once. */
export interface Waiting {
  readonly method: string;
  /** Sent beside its message, where the line has such. */
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

/** An error that the server is told with its own code. */
export class Refusal extends Error {
  readonly rpc: RpcFailure;

  constructor(code: number, message: string, data?: Json) {
    super(message);
    this.rpc = data === undefined ? { code, message } : { code, message, data };
  }
}

export interface ConversationEvents {
  /** A question of the server; throw a Refusal to choose what it is told. */
  asked(method: string, params: JsonObject, origin: Waiting | null): Promise<Json>;
  told(method: string, params: JsonObject, origin: Waiting | null): void;
  violation(kind: string): void;
  strayed(text: string): void;
  failure(error: BackplaneError): void;
  /** The server forgot us. Resolves when there is a new session, in which the request is sent again. */
  expired(): Promise<void>;
}

interface Open {
  waiting: Waiting;
  message: JsonObject;
  renewed: boolean;
}

/** Questions of the server that are being answered at one time. */
const MAX_ASKED = 100;

export class Conversation implements LineEvents {
  readonly #events: ConversationEvents;
  readonly #open = new IdTable<Open, number>();
  readonly #settled = new SettledIds();
  readonly #oneWay = new OneWayMessages();
  readonly line: Line;
  #nextId = 1;
  #asked = 0;
  #failure: BackplaneError | null = null;

  constructor(makeLine: (events: LineEvents) => Line, events: ConversationEvents) {
    this.#events = events;
    this.line = makeLine(this);
  }

  get failed(): BackplaneError | null {
    return this.#failure;
  }

  /** The id of the request; 0 where it could not be sent and `lost` was told so. */
  send(waiting: Waiting, params: (id: number) => JsonObject): number {
    const id = this.#nextId++;
    if (this.#failure !== null) {
      waiting.lost(this.#failure);
      return 0;
    }
    const message = { jsonrpc: "2.0", id, method: waiting.method, params: params(id) };
    // Before it is sent: a line may know of its failure at once.
    this.#open.add(id, { waiting, message, renewed: false });
    try {
      this.line.send(message, waiting.headers);
    } catch (error) {
      this.lost(id, error as BackplaneError);
      return 0;
    }
    return id;
  }

  notify(method: string, params?: JsonObject): void {
    if (this.#failure !== null) return;
    try {
      this.line.send(params === undefined ? { jsonrpc: "2.0", method } : { jsonrpc: "2.0", method, params });
      this.#oneWay.sent(this.#nextId);
    } catch {
      // Whoever does not read learns nothing; its requests are refused with the reason.
    }
  }

  /** Nobody waits any more. */
  forget(id: number): void {
    if (this.#open.delete(id) !== undefined) this.line.drop(id);
  }

  *inFlight(): Iterable<Waiting> {
    for (const { waiting } of this.#open.values()) yield waiting;
  }

  receive(message: JsonObject, origin: number | null): void {
    const { method, id } = message;
    const isReply: boolean = isRpcReply(message, (one) => this.#open.has(one));
    if (isReply) {
      this.#receiveAnswer(message, origin);
      return;
    }
    if (message.jsonrpc !== "2.0") {
      this.#events.violation("message_invalid");
      return;
    }
    const { params = {} } = message;
    if (typeof method !== "string" || !isObject(params)) {
      this.#events.violation("message_invalid");
      return;
    }
    const from = origin === null ? null : this.#waitingFor(origin);
    if (id === undefined) this.#receiveNotice(method, params, from);
    else if (typeof id === "string" || typeof id === "number") void this.#answer(id, method, params, from);
    else this.#events.violation("message_invalid");
  }

  lost(id: number, error: BackplaneError): void {
    const open = this.#open.get(id);
    this.#open.delete(id);
    open?.waiting.lost(error);
  }

  expired(id: number): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    if (open.renewed) {
      this.lost(id, new BackplaneError("crashed", "The MCP server forgets every session at once."));
      return;
    }
    open.renewed = true;
    this.#events.expired().then(
      () => this.#resend(id, open),
      (error: BackplaneError) => this.lost(id, error),
    );
  }

  forgotten(): void {
    // The next request meets what went wrong.
    this.#events.expired().catch(() => {});
  }

  violation(kind: string): void {
    this.#events.violation(kind);
  }

  strayed(text: string): void {
    this.#events.strayed(text);
  }

  failure(error: BackplaneError): void {
    if (this.#failure !== null) return;
    this.#failure = error;
    for (const id of this.#open.ids()) this.lost(id, error);
    this.#events.failure(error);
  }

  #waitingFor(id: number): Waiting | null {
    return this.#open.get(id)?.waiting ?? null;
  }

  #resend(id: number, { message, waiting }: Open): void {
    if (!this.#open.has(id)) return;
    try {
      this.line.send(message, waiting.headers);
    } catch (error) {
      this.lost(id, error as BackplaneError);
    }
  }

  #receiveAnswer(message: JsonObject, origin: number | null): void {
    const { id, result } = message;
    const open = typeof id === "number" ? this.#open.delete(id) : undefined;
    if (open === undefined || typeof id !== "number") {
      this.#receiveMisdirected(message, origin);
      return;
    }
    this.#settled.add(String(id), "replied");
    this.#oneWay.replied(id);
    const problem = checkRpcResponse(message);
    if (problem !== undefined) {
      open.waiting.lost(malformed(open.waiting.method, problem));
      return;
    }
    if (message.error === undefined) {
      open.waiting.answered(result!);
      return;
    }
    const { code, message: words, data } = message.error as unknown as RpcFailure;
    open.waiting.refused(data === undefined ? { code, message: words } : { code, message: words, data });
  }

  /** A reply whose id is not that of an open request. */
  #receiveMisdirected(message: JsonObject, origin: number | null): void {
    const { id } = message;
    const meant = typeof id === "number" ? id : idFromText(id);
    const isOpen = meant !== undefined && this.#open.has(meant);
    if (meant !== undefined && !isOpen && Number.isInteger(meant) && meant >= 1 && meant < this.#nextId) {
      // An answer after a cancel is late, which the protocol allows; a second one is a mistake.
      if (this.#settled.get(String(meant)) === "replied") this.#events.violation("second_reply");
      return;
    }
    const request = isOpen ? meant : origin;
    if (request !== null && this.#open.has(request)) {
      this.#loseMalformed(request, `its id is ${shownId(id)} and not the number ${request}`);
      return;
    }
    const belongsToRequest = typeof id !== "number" && this.line.shares_stream && this.#open.size > 0;
    if (!belongsToRequest || this.#oneWay.excuses(message)) this.#events.violation("answer_unknown");
    else {
      const words = `A reply of the MCP server names no request: its id is ${shownId(id)}, and ours are numbers.`;
      this.failure(new BackplaneError("malformed_response", words));
    }
  }

  #loseMalformed(id: number, problem: string): void {
    const open = this.#open.delete(id);
    if (open === undefined) return;
    this.#settled.add(String(id), "replied");
    this.line.drop(id);
    open.waiting.lost(malformed(open.waiting.method, problem));
  }

  #receiveNotice(method: string, params: JsonObject, from: Waiting | null): void {
    if (method !== "notifications/progress") {
      this.#events.told(method, params, from);
      return;
    }
    const token = params.progressToken;
    if (typeof token === "number") this.#waitingFor(token)?.progress?.(params);
  }

  async #answer(
    id: string | number,
    method: string,
    params: JsonObject,
    from: Waiting | null,
  ): Promise<void> {
    const answer = await this.#answerTo(method, params, from);
    if (this.#failure !== null) return;
    try {
      this.line.send({ jsonrpc: "2.0", id, ...answer });
      this.#oneWay.sent(this.#nextId);
    } catch {
      this.#events.violation("answer_not_read");
    }
  }

  async #answerTo(method: string, params: JsonObject, from: Waiting | null): Promise<JsonObject> {
    if (this.#asked >= MAX_ASKED) {
      return { error: { code: RPC.internal, message: "too many questions at one time" } };
    }
    this.#asked++;
    try {
      return { result: await this.#events.asked(method, params, from) };
    } catch (error) {
      return { error: { ...refusalOf(error) } };
    } finally {
      this.#asked--;
    }
  }
}

function malformed(method: string, problem: string): BackplaneError {
  return new BackplaneError("malformed_response", `The answer to ${method} is not valid: ${problem}.`);
}

/** A client behind us may have refused with a code of its own; anything else is nothing to a stranger. */
export function refusalOf(error: unknown): RpcFailure {
  if (error instanceof Refusal) return error.rpc;
  const { rpcCode, code, message, data } = error as {
    rpcCode?: unknown;
    code?: unknown;
    message?: unknown;
    data?: Json;
  };
  const number = typeof rpcCode === "number" ? rpcCode : code;
  if (typeof number !== "number" || typeof message !== "string") {
    return { code: RPC.internal, message: "the question could not be answered" };
  }
  return data === undefined ? { code: number, message } : { code: number, message, data };
}

export type Reply =
  | { kind: "answered"; result: Json }
  | { kind: "refused"; error: RpcFailure }
  | { kind: "lost"; error: BackplaneError }
  | { kind: "late" };

export function askInTime(
  talk: Conversation,
  link: Link,
  method: string,
  params: JsonObject,
  timeout_ms: number,
): Promise<Reply> {
  return new Promise((resolve) => {
    let stop = () => {};
    const settle = (reply: Reply) => {
      stop();
      resolve(reply);
    };
    const id = talk.send(
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
      talk.forget(id);
      resolve({ kind: "late" });
    });
  });
}
