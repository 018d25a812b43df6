/**
 * One MCP server, spoken to for all calls of a binding:
 *   open (discover or initialize) → ready → closed
 * A call that is cancelled is over at once, since the protocol knows no acknowledgement. A call whose time ran out puts
 * the server to the test: one that answers nothing any more is given up, so that the next call gets a fresh one.
 */
import {
  BackplaneError,
  IdTable,
  isObject,
  type Json,
  type JsonObject,
  type ToolExport,
} from "@backplane/contract";
import type { Description, RequestListener } from "@backplane/ports";
import type { Exchange, Link, ProcessOrder, Session } from "../../ports/dialect.ts";
import {
  type AskCaller,
  type Asker,
  answerAll,
  answerQuestion,
  askerAmong,
  canAsk,
} from "./answer-server-request.ts";
import { describeTools } from "./describe-tools.ts";
import { negotiate } from "./negotiate.ts";
import { makeRequest, OtherRequest, type Requester } from "./other-request.ts";
import { paramHeaders } from "./param-headers.ts";
import { type Agreement, ASKABLE, envelope } from "./revisions.ts";
import { askInTime, Conversation, type Waiting } from "./rpc-channel.ts";
import { SessionSubscriptions, Subscription } from "./subscriptions.ts";
import { type Caller, ToolCall } from "./tool-call.ts";
import type { Line, LineEvents } from "./transport.ts";

export interface McpOptions {
  link: Link;
  makeLine: (events: LineEvents) => Line;
  /** The folders that the server was given, as it sees them. */
  folders: readonly string[];
  skip_discovery: boolean;
  spare(): void;
}

const NOTHING: ToolExport["permissions"] = {
  network: "none",
  filesystem: "none",
  gateway_api_scopes: [],
  secret_slots: [],
};
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";
/** Between two tries of a call that only asked to come again. */
const PAUSE_MS = 250;

export class McpSession implements Session, Caller, Requester {
  readonly #options: McpOptions;
  readonly #link: Link;
  readonly #talk: Conversation;
  readonly #calls = new IdTable<ToolCall>();
  readonly #subscription: Subscription;
  readonly #subscribed = new SessionSubscriptions();
  readonly #notices = new NoticeRate();
  #agreement: Agreement | null = null;
  #reopening: Promise<void> | null = null;
  /** Log messages from this level on are wanted. */
  #level = "info";
  #testing = false;
  #closed = false;

  constructor(options: McpOptions) {
    this.#options = options;
    this.#link = options.link;
    this.#talk = new Conversation(options.makeLine, {
      asked: (method, params, origin) => this.#asked(method, params, origin),
      told: (method, params, origin) => this.#told(method, params, origin),
      violation: (kind) => this.#link.violation(kind),
      strayed: (text) => this.#link.stray?.(text),
      failure: (error) => this.#link.failure(error),
      expired: () => this.#reopen(),
    });
    this.#subscription = new Subscription({
      send: (waiting, params) => this.#talk.send(waiting, () => this.#withEnvelope(params, {})),
      withdraw: (id) => this.withdraw(id, "replaced"),
      later: (run) => this.#link.after(this.#link.timeouts.alive_ms, run),
      over: () => this.#closed || this.#talk.failed !== null,
    });
  }

  get output_bytes(): number {
    return this.#link.limits.output_bytes;
  }

  get stateless(): boolean {
    return this.#agreement?.stateless ?? false;
  }

  async open(): Promise<void> {
    await this.#greet();
  }

  refresh({ secrets, config }: ProcessOrder["context"]): void {
    this.#talk.line.refresh?.(secrets, config);
  }

  call(exchange: Exchange): void {
    const { order } = exchange;
    this.refresh(order.context);
    const { input } = order.body;
    const name = order.native_name ?? order.export_id;
    const given = isObject(input) ? input : {};
    const headers = this.stateless ? paramHeaders(order.param_headers ?? [], given) : {};
    const call = new ToolCall(this, exchange, { name, arguments: given }, headers);
    this.#calls.add(exchange.id, call);
    if (this.dispatch(call)) exchange.sent();
  }

  cancel(id: string, reason: string): boolean {
    const call = this.#calls.get(id);
    if (call === undefined) return false;
    this.#takeBack(call, reason);
    if (reason === "deadline_exceeded") this.#test();
    call.exchange.broke(new BackplaneError("cancelled"));
    return true;
  }

  abandon(id: string): void {
    const call = this.#calls.get(id);
    if (call !== undefined) this.#takeBack(call, "abandoned");
  }

  async describe(): Promise<Description> {
    const { package_id } = this.#link.package;
    const permissions = this.#link.order?.package.runtime.permissions ?? NOTHING;
    // A pipe has no headers to put anything into.
    const headers = this.stateless && this.#talk.line.cancels_by_drop;
    return await describeTools(package_id, this.#agreement!, permissions, headers, (method, params) =>
      makeRequest(this, method, params, null, null),
    );
  }

  async request(
    method: string,
    params: JsonObject,
    listener: RequestListener,
    signal: AbortSignal,
  ): Promise<Json> {
    if (this.stateless) {
      // Gone from this revision, and nothing is lost by it.
      if (method === "ping") return {};
      if (method === "logging/setLevel") return this.#setLevel(params.level);
      if (method === "resources/subscribe") return this.#subscription.watch(params.uri, true);
      if (method === "resources/unsubscribe") return this.#subscription.watch(params.uri, false);
    }
    const answer = await makeRequest(this, method, params, listener, signal);
    if (typeof params.uri === "string") this.#subscribed.remember(method, params.uri);
    return answer;
  }

  shutdown(): void {
    this.#closed = true;
    this.#talk.line.close();
  }

  verdict(): null {
    return null;
  }

  over(call: ToolCall): void {
    if (this.#calls.get(call.exchange.id) === call) this.#calls.delete(call.exchange.id);
  }

  dispatch(call: ToolCall): boolean {
    call.rpc_id = this.send(call, call.params);
    return call.rpc_id !== 0;
  }

  send(waiting: Asker, params: JsonObject): number {
    const askable = waiting.asker === null ? {} : ASKABLE;
    return this.#talk.send(waiting, (id) => this.#params(params, askable, id));
  }

  /** Over HTTP the stateless revision says it by closing the request, which `forget` does. */
  withdraw(requestId: number, reason: string): void {
    this.#talk.forget(requestId);
    if (this.stateless && this.#talk.line.cancels_by_drop) return;
    this.#talk.notify("notifications/cancelled", { requestId, reason });
  }

  after(ms: number, run: () => void): () => void {
    return this.#link.after(ms, run);
  }

  async answers(requests: Json | undefined, asker: AskCaller | null): Promise<JsonObject | null> {
    if (isObject(requests) && Object.keys(requests).length > 0) {
      return await answerAll(requests, asker, this.#options.folders);
    }
    await new Promise<void>((resolve) => this.#link.after(PAUSE_MS, resolve));
    return null;
  }

  #params(params: JsonObject, capabilities: JsonObject, id: number): JsonObject {
    const _meta = { ...(isObject(params._meta) ? params._meta : {}), progressToken: id };
    if (!this.stateless) return { ...params, _meta };
    return this.#withEnvelope({ ...params, _meta: { ..._meta, [LOG_LEVEL]: this.#level } }, capabilities);
  }

  /** Each request says it in this revision. */
  #setLevel(level: Json | undefined): JsonObject {
    if (typeof level === "string") this.#level = level;
    return {};
  }

  #withEnvelope(params: JsonObject, capabilities: JsonObject): JsonObject {
    const given = isObject(params._meta) ? params._meta : {};
    return { ...params, _meta: { ...given, ...envelope(this.#client(), capabilities) } };
  }

  #client(): JsonObject {
    return { name: this.#link.host.name, version: this.#link.host.version };
  }

  async #greet(): Promise<void> {
    const { discover_ms, initialize_ms } = this.#link.timeouts;
    this.#agreement = null;
    this.#talk.line.agreed(null);
    const agreement = await negotiate({
      client: this.#client(),
      discover_ms,
      initialize_ms,
      skip_discovery: this.#options.skip_discovery,
      request: (method, params, timeout_ms) => askInTime(this.#talk, this.#link, method, params, timeout_ms),
      spare: () => this.#options.spare(),
      stray: () => this.#talk.line.stray?.() ?? "",
    });
    this.#agreement = agreement;
    this.#talk.line.agreed(agreement);
    if (agreement.stateless) this.#subscription.begin(agreement.capabilities);
    else this.#talk.notify("notifications/initialized");
    if (agreement.stateless) return;
    this.#subscribed.tellAgain((uri) => makeRequest(this, "resources/subscribe", { uri }, null, null));
  }

  /** One for all requests that find the session gone. */
  #reopen(): Promise<void> {
    this.#reopening ??= this.#greet().finally(() => {
      this.#reopening = null;
    });
    return this.#reopening;
  }

  #takeBack(call: ToolCall, reason: string): void {
    this.over(call);
    call.withdrawn = true;
    if (call.rpc_id !== 0) this.withdraw(call.rpc_id, reason);
  }

  /** A server that answers not even this is stuck. */
  #test(): void {
    if (this.#testing || this.#talk.failed !== null) return;
    this.#testing = true;
    const method = this.stateless ? "server/discover" : "ping";
    const params = this.stateless ? this.#withEnvelope({}, {}) : {};
    void askInTime(this.#talk, this.#link, method, params, this.#link.timeouts.alive_ms).then((reply) => {
      this.#testing = false;
      if (reply.kind !== "late" || this.#closed) return;
      this.#talk.failure(
        new BackplaneError("timeout", "The MCP server does not answer any more and was given up."),
      );
    });
  }

  async #asked(method: string, params: JsonObject, origin: Waiting | null): Promise<Json> {
    const { folders } = this.#options;
    if (method === "ping") return await answerQuestion(method, params, null, folders);
    const mine = origin !== null && canAsk(origin) ? origin.asker : null;
    const asker = origin === null ? askerAmong(method, this.#talk.inFlight()) : mine;
    return await answerQuestion(method, params, asker, folders);
  }

  #told(method: string, params: JsonObject, origin: Waiting | null): void {
    if (method === "notifications/cancelled" || method === "notifications/subscriptions/acknowledged") return;
    if (method === "notifications/message") {
      const call = origin ?? this.#onlyCall();
      if (call instanceof ToolCall) {
        call.log(params);
        return;
      }
    }
    if (!this.#notices.take()) {
      this.#link.violation("flood");
      return;
    }
    if (origin instanceof OtherRequest) origin.notify(method, params);
    else this.#link.notice(method, params);
  }

  #onlyCall(): ToolCall | null {
    return this.#calls.size === 1 ? this.#calls.values()[0]! : null;
  }
}

/** More is a flood and counts as broken rules. */
const NOTICES_PER_SECOND = 200;

class NoticeRate {
  #second = 0;
  #count = 0;

  /** Counts one more. False: it is one too many for this second. */
  take(): boolean {
    const second = Math.floor(performance.now() / 1_000);
    if (this.#second !== second) {
      this.#second = second;
      this.#count = 0;
    }
    return ++this.#count <= NOTICES_PER_SECOND;
  }
}
