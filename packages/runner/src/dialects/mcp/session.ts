/**
 * One MCP server, spoken to for all calls of a binding:
 *   open (discover or initialize) → ready → closed
 * A call that is cancelled is over at once, since the protocol knows no acknowledgement. A call whose time ran out puts
 * the server to the test: one that answers nothing any more is given up, so that the next call gets a fresh one.
 */
import { BackplaneError, IdTable, type Json, type JsonObject, type ToolExport } from "@backplane/contract";
import type { Description, RequestListener } from "@backplane/kernel/ports";
import type { Exchange, Link, ProcessOrder, Session } from "../dialect.ts";
import { answerAll, type AskCaller, answerQuestion, askerAmong, canAsk } from "./answer-question.ts";
import { Conversation, type Waiting } from "./conversation.ts";
import { describeTools } from "./describe-tools.ts";
import type { Line, LineEvents } from "./line.ts";
import { negotiate, type Reply } from "./negotiate.ts";
import { OtherRequest } from "./other-request.ts";
import { type Agreement, ASKABLE, envelope, isObject } from "./revisions.ts";
import { paramHeaders } from "./param-headers.ts";
import { Subscription } from "./subscription.ts";
import { again, asksFirst, type Caller, MAX_ROUNDS, ToolCall, tooManyRounds } from "./tool-call.ts";

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
/** A request that is no call; whoever asks may have less patience. */
const LONGEST_MS = 300_000;
/** Between two tries of a call that only asked to come again. */
const PAUSE_MS = 250;
const MAX_SUBSCRIBED = 10_000;
/** What a server says unasked, per second; more is a flood and counts as broken rules. */
const NOTICES_PER_SECOND = 200;

export class McpSession implements Session, Caller {
  readonly #options: McpOptions;
  readonly #link: Link;
  readonly #talk: Conversation;
  readonly #calls = new IdTable<ToolCall>();
  readonly #subscription: Subscription;
  /** Resources that a server of a revision with sessions was subscribed to; a new session is told again. */
  readonly #subscribed = new Set<string>();
  #agreement: Agreement | null = null;
  #reopening: Promise<void> | null = null;
  /** Log messages from this level on are wanted. */
  #level = "info";
  #testing = false;
  #closed = false;
  #notices = { second: 0, count: 0 };

  constructor(options: McpOptions) {
    this.#options = options;
    this.#link = options.link;
    this.#talk = new Conversation(options.makeLine, {
      asked: (method, params, origin) => this.#asked(method, params, origin),
      told: (method, params, origin) => this.#told(method, params, origin),
      violation: (kind) => this.#link.violation(kind),
      failure: (error) => this.#link.failure(error),
      expired: () => this.#reopen(),
    });
    this.#subscription = new Subscription({
      send: (waiting, params) => this.#talk.send(waiting, () => this.#withEnvelope(params, {})),
      withdraw: (id) => this.#withdrawRequest(id, "replaced"),
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
    this.#withdraw(call, reason);
    if (reason === "deadline_exceeded") this.#test();
    call.exchange.broke(new BackplaneError("cancelled"));
    return true;
  }

  abandon(id: string): void {
    const call = this.#calls.get(id);
    if (call !== undefined) this.#withdraw(call, "abandoned");
  }

  async describe(): Promise<Description> {
    const { package_id } = this.#link.package;
    const permissions = this.#link.order?.package.runtime.permissions ?? NOTHING;
    // A pipe has no headers to put anything into.
    const headers = this.stateless && this.#talk.line.cancels_by_drop;
    return await describeTools(package_id, this.#agreement!, permissions, headers, (method, params) =>
      this.#request(method, params, null, null),
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
    const answer = await this.#request(method, params, listener, signal);
    if (typeof params.uri === "string") this.#remember(method, params.uri);
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
    const askable = call.asker === null ? {} : ASKABLE;
    call.rpc_id = this.#talk.send(call, (id) => this.#params(call.params, askable, id));
    return call.rpc_id !== 0;
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

  #remember(method: string, uri: string): void {
    if (method === "resources/unsubscribe") this.#subscribed.delete(uri);
    if (method === "resources/subscribe" && this.#subscribed.size < MAX_SUBSCRIBED) this.#subscribed.add(uri);
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
      request: (method, params, timeout_ms) => this.#ask(method, params, timeout_ms),
      spare: () => this.#options.spare(),
    }).catch((error: BackplaneError) => {
      throw this.#withStray(error);
    });
    this.#agreement = agreement;
    this.#talk.line.agreed(agreement);
    if (agreement.stateless) this.#subscription.begin(agreement.capabilities);
    else this.#talk.notify("notifications/initialized");
    if (agreement.stateless) return;
    for (const uri of this.#subscribed) {
      // One that is not there any more is not worth the session.
      this.#request("resources/subscribe", { uri }, null, null).catch(() => this.#subscribed.delete(uri));
    }
  }

  /** One for all requests that find the session gone. */
  #reopen(): Promise<void> {
    this.#reopening ??= this.#greet().finally(() => {
      this.#reopening = null;
    });
    return this.#reopening;
  }

  #withStray(error: BackplaneError): BackplaneError {
    const stray_output = this.#talk.line.stray?.() ?? "";
    if (stray_output === "") return error;
    return new BackplaneError(error.code, error.message, {
      details: { ...error.details, stray_output },
      cause: error,
    });
  }

  /** For the line's own questions, outside of any revision's envelope. */
  #ask(method: string, params: JsonObject, timeout_ms: number): Promise<Reply> {
    return new Promise((resolve) => {
      let stop = () => {};
      const settle = (reply: Reply) => {
        stop();
        resolve(reply);
      };
      const id = this.#talk.send(
        {
          method,
          answered: (result) => settle({ kind: "answered", result }),
          refused: (error) => settle({ kind: "refused", error }),
          lost: (error) => settle({ kind: "lost", error }),
        },
        () => params,
      );
      if (id === 0) return;
      stop = this.#link.after(timeout_ms, () => {
        this.#talk.forget(id);
        resolve({ kind: "late" });
      });
    });
  }

  /** Any request but a tool call. Rejects with a BackplaneError, for a server's refusal `plugin_failed`. */
  async #request(
    method: string,
    given: JsonObject,
    listener: RequestListener | null,
    signal: AbortSignal | null,
  ): Promise<Json> {
    let params = given;
    for (let round = 0; round <= MAX_ROUNDS; round++) {
      const result = await this.#once(method, params, listener, signal);
      if (!asksFirst(this.stateless, result)) return result;
      const asker: AskCaller | null =
        listener === null ? null : (what, about, key) => listener.ask(what, about, key);
      params = again(given, result, await this.answers(result.inputRequests, asker));
    }
    throw tooManyRounds(method);
  }

  #once(
    method: string,
    params: JsonObject,
    listener: RequestListener | null,
    signal: AbortSignal | null,
  ): Promise<Json> {
    return new Promise((resolve, reject) => {
      const waiting = new OtherRequest(method, listener, resolve, reject);
      const askable = listener === null ? {} : ASKABLE;
      const id = this.#talk.send(waiting, (own) => this.#params(params, askable, own));
      if (id === 0) return;
      const takeBack = () => {
        this.#withdrawRequest(id, "timeout");
        waiting.lost(new BackplaneError("timeout", `${method} was not answered in time.`));
      };
      const late = this.#link.after(LONGEST_MS, takeBack);
      signal?.addEventListener("abort", takeBack, { once: true });
      waiting.stop = () => {
        late();
        signal?.removeEventListener("abort", takeBack);
      };
    });
  }

  #withdraw(call: ToolCall, reason: string): void {
    this.over(call);
    call.withdrawn = true;
    if (call.rpc_id !== 0) this.#withdrawRequest(call.rpc_id, reason);
  }

  /** Over HTTP the stateless revision says it by closing the request, which `forget` does. */
  #withdrawRequest(requestId: number, reason: string): void {
    this.#talk.forget(requestId);
    if (this.stateless && this.#talk.line.cancels_by_drop) return;
    this.#talk.notify("notifications/cancelled", { requestId, reason });
  }

  /** A server that answers not even this is stuck. */
  #test(): void {
    if (this.#testing || this.#talk.failed !== null) return;
    this.#testing = true;
    const method = this.stateless ? "server/discover" : "ping";
    const params = this.stateless ? this.#withEnvelope({}, {}) : {};
    void this.#ask(method, params, this.#link.timeouts.alive_ms).then((reply) => {
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
    const second = Math.floor(performance.now() / 1_000);
    if (this.#notices.second !== second) this.#notices = { second, count: 0 };
    if (++this.#notices.count > NOTICES_PER_SECOND) {
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
