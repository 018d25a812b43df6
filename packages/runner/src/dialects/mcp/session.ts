/**
 * One MCP server for all calls with the same pool key:
 *   open (discover or initialize) → ready → closed
 * A cancelled call ends immediately, because the protocol has no acknowledgement. After a call that timed out the
 * server is probed; if it does not answer, it is abandoned and the next call gets a new one.
 */
import { BackplaneError, IdTable, isObject, type Json, type JsonObject } from "@backplane/contract";
import type { Description, ProcessRequest, RequestListener } from "@backplane/ports";
import {
  type DialectCall,
  type DialectSession,
  NO_PERMISSIONS,
  type ProcessLink,
} from "../../ports/dialect.ts";
import {
  type AnswerRequest,
  answerInputRequests,
  answerServerRequest,
  findAnswerer,
  hasAnswerer,
  type RequestWithAnswerer,
} from "./answer-server-request.ts";
import { describeTools } from "./describe-tools.ts";
import type { RememberedLevel } from "./log-levels.ts";
import { negotiate } from "./negotiate.ts";
import { NonToolRequest, type Requester, sendNonToolRequest } from "./non-tool-request.ts";
import { paramHeaders } from "./param-headers.ts";
import { type Agreement, CLIENT_CAPABILITIES, envelope } from "./revisions.ts";
import { type PendingRequest, RpcChannel, requestWithTimeout } from "./rpc-channel.ts";
import { McpSubscription, SessionSubscriptions } from "./subscriptions.ts";
import { McpToolCall, type ToolCallSession } from "./tool-call.ts";
import type { McpTransport, TransportEvents } from "./transport.ts";

export interface McpOptions {
  link: ProcessLink;
  createTransport: (events: TransportEvents) => McpTransport;
  /** The mounted folders, as the server sees them. */
  folders: readonly string[];
  /** Outlives this session. */
  log_level: RememberedLevel;
  skip_discovery: boolean;
  disableDiscovery(): void;
}

const LOG_LEVEL = "io.modelcontextprotocol/logLevel";
const DEFAULT_LEVEL = "info";
/** Delay before repeating a request whose server reported missing input but requested none. */
const PAUSE_MS = 250;

export class McpDialectSession implements DialectSession, ToolCallSession, Requester {
  readonly #options: McpOptions;
  readonly #link: ProcessLink;
  readonly #channel: RpcChannel;
  readonly #calls = new IdTable<McpToolCall>();
  readonly #subscription: McpSubscription;
  readonly #session_subscriptions = new SessionSubscriptions();
  readonly #notification_rate = new NotificationRate();
  #agreement: Agreement | null = null;
  #reopening: Promise<void> | null = null;
  #probing = false;
  #closed = false;

  constructor(options: McpOptions) {
    this.#options = options;
    this.#link = options.link;
    this.#channel = new RpcChannel(options.createTransport, {
      onRequest: (method, params, origin) => this.#onRequest(method, params, origin),
      onNotification: (method, params, origin) => this.#onNotification(method, params, origin),
      reportViolation: (kind) => this.#link.reportViolation(kind),
      reportStrayOutput: (text) => this.#link.reportStrayOutput?.(text),
      reportFailure: (error) => this.#link.reportFailure(error),
      reopenSession: () => this.#reopen(),
    });
    this.#subscription = new McpSubscription({
      send: (pending, params) => this.#channel.send(pending, () => this.#withEnvelope(params, {})),
      withdraw: (id) => this.withdraw(id, "replaced"),
      later: (run) => this.#link.after(this.#link.timeouts.alive_ms, run),
      isClosed: () => this.#closed || this.#channel.error !== null,
    });
  }

  get output_bytes(): number {
    return this.#link.limits.output_bytes;
  }

  get stateless(): boolean {
    return this.#agreement?.stateless ?? false;
  }

  async open(): Promise<void> {
    await this.#negotiate();
  }

  refresh({ secrets, config }: ProcessRequest["context"]): void {
    this.#channel.transport.refresh?.(secrets, config);
  }

  /** A subscription to changed lists does not count: the lists are read again when the server starts. */
  inUse(): boolean {
    return this.#subscription.isWatching || !this.#session_subscriptions.isEmpty;
  }

  call(exchange: DialectCall): void {
    const { request } = exchange;
    this.refresh(request.context);
    const { input } = request.body;
    const name = request.native_name ?? request.export_id;
    const args = isObject(input) ? input : {};
    const headers = this.stateless ? paramHeaders(request.param_headers ?? [], args) : {};
    const call = new McpToolCall(this, exchange, { name, arguments: args }, headers);
    this.#calls.set(exchange.id, call);
    if (this.dispatch(call)) exchange.sent();
  }

  cancel(id: string, reason: string): boolean {
    const call = this.#calls.get(id);
    if (call === undefined) return false;
    this.#withdrawCall(call, reason);
    if (reason === "deadline_exceeded") this.#probe();
    call.exchange.failed(new BackplaneError("cancelled"));
    return true;
  }

  abandon(id: string): void {
    const call = this.#calls.get(id);
    if (call !== undefined) this.#withdrawCall(call, "abandoned");
  }

  async describe(): Promise<Description> {
    const { package_id } = this.#link.package;
    const { request } = this.#link;
    const permissions = request?.package.runtime.permissions ?? NO_PERMISSIONS;
    const server = { package_id, config: request?.context.config ?? {} };
    // Only HTTP has headers.
    const with_headers = this.stateless && this.#channel.transport.cancels_by_drop;
    return await describeTools(server, this.#agreement!, permissions, with_headers, (method, params) =>
      sendNonToolRequest(this, method, params, null, null),
    );
  }

  async request(
    method: string,
    params: JsonObject,
    listener: RequestListener,
    signal: AbortSignal,
  ): Promise<Json> {
    if (this.stateless) {
      // These methods do not exist in the stateless revision.
      if (method === "ping") return {};
      if (method === "logging/setLevel") return this.#setLevel(params.level);
      if (method === "resources/subscribe") return this.#subscription.setWatched(params.uri, true);
      if (method === "resources/unsubscribe") return this.#subscription.setWatched(params.uri, false);
    }
    const answer = await sendNonToolRequest(this, method, params, listener, signal);
    if (method === "logging/setLevel") this.#setLevel(params.level);
    if (typeof params.uri === "string") this.#session_subscriptions.remember(method, params.uri);
    return answer;
  }

  shutdown(): void {
    this.#closed = true;
    this.#channel.transport.close();
  }

  trailingOutputError(): null {
    return null;
  }

  removeCall(call: McpToolCall): void {
    if (this.#calls.get(call.exchange.id) === call) this.#calls.delete(call.exchange.id);
  }

  dispatch(call: McpToolCall): boolean {
    call.rpc_id = this.send(call, call.params);
    return call.rpc_id !== 0;
  }

  send(pending: RequestWithAnswerer, params: JsonObject): number {
    const capabilities = pending.answerRequest === null ? {} : CLIENT_CAPABILITIES;
    return this.#channel.send(pending, (id) => this.#params(params, capabilities, id));
  }

  /** Over HTTP in the stateless revision, `forget` closes the request, which cancels it. */
  withdraw(request_id: number, reason: string): void {
    this.#channel.forget(request_id);
    if (this.stateless && this.#channel.transport.cancels_by_drop) return;
    this.#channel.notify("notifications/cancelled", { requestId: request_id, reason });
  }

  after(ms: number, run: () => void): () => void {
    return this.#link.after(ms, run);
  }

  async collectInput(
    requests: Json | undefined,
    answerRequest: AnswerRequest | null,
  ): Promise<JsonObject | null> {
    if (isObject(requests) && Object.keys(requests).length > 0) {
      return await answerInputRequests(requests, answerRequest, this.#options.folders);
    }
    await new Promise<void>((resolve) => this.#link.after(PAUSE_MS, resolve));
    return null;
  }

  #params(params: JsonObject, capabilities: JsonObject, id: number): JsonObject {
    const _meta = { ...(isObject(params._meta) ? params._meta : {}), progressToken: id };
    if (!this.stateless) return { ...params, _meta };
    return this.#withEnvelope(
      { ...params, _meta: { ..._meta, [LOG_LEVEL]: this.#options.log_level.get() ?? DEFAULT_LEVEL } },
      capabilities,
    );
  }

  /** In the stateless revision each request carries the level; in the others it is set again in each new session. */
  #setLevel(level: Json | undefined): JsonObject {
    if (typeof level === "string") this.#options.log_level.set(level);
    return {};
  }

  #withEnvelope(params: JsonObject, capabilities: JsonObject): JsonObject {
    const meta = isObject(params._meta) ? params._meta : {};
    return { ...params, _meta: { ...meta, ...envelope(this.#client(), capabilities) } };
  }

  #client(): JsonObject {
    return { name: this.#link.host.name, version: this.#link.host.version };
  }

  async #negotiate(): Promise<void> {
    const { discover_ms, initialize_ms } = this.#link.timeouts;
    this.#agreement = null;
    this.#channel.transport.setAgreement(null);
    const agreement = await negotiate({
      client: this.#client(),
      discover_ms,
      initialize_ms,
      skip_discovery: this.#options.skip_discovery,
      request: (method, params, timeout_ms) =>
        requestWithTimeout(this.#channel, this.#link, method, params, timeout_ms),
      disableDiscovery: () => this.#options.disableDiscovery(),
      strayText: () => this.#channel.transport.strayText?.() ?? "",
    });
    this.#agreement = agreement;
    this.#channel.transport.setAgreement(agreement);
    if (agreement.stateless) this.#subscription.begin(agreement.capabilities);
    else this.#channel.notify("notifications/initialized");
    if (agreement.stateless) return;
    const level = this.#options.log_level.get();
    if (level !== null && isObject(agreement.capabilities.logging)) {
      // A server that refuses the level must not fail its session.
      sendNonToolRequest(this, "logging/setLevel", { level }, null, null).catch(() => undefined);
    }
    this.#session_subscriptions.resubscribe((uri) =>
      sendNonToolRequest(this, "resources/subscribe", { uri }, null, null),
    );
  }

  /** Opens one new session for all requests that found the old one expired. */
  #reopen(): Promise<void> {
    this.#reopening ??= this.#negotiate().finally(() => {
      this.#reopening = null;
    });
    return this.#reopening;
  }

  #withdrawCall(call: McpToolCall, reason: string): void {
    this.removeCall(call);
    call.withdrawn = true;
    if (call.rpc_id !== 0) this.withdraw(call.rpc_id, reason);
  }

  /** Checks whether the server still responds. A server that does not is abandoned. */
  #probe(): void {
    if (this.#probing || this.#channel.error !== null) return;
    this.#probing = true;
    const method = this.stateless ? "server/discover" : "ping";
    const params = this.stateless ? this.#withEnvelope({}, {}) : {};
    void requestWithTimeout(this.#channel, this.#link, method, params, this.#link.timeouts.alive_ms).then(
      (reply) => {
        this.#probing = false;
        if (reply.kind !== "late" || this.#closed) return;
        this.#channel.reportFailure(
          new BackplaneError("timeout", "The MCP server stopped answering and was abandoned."),
        );
      },
    );
  }

  async #onRequest(method: string, params: JsonObject, origin: PendingRequest | null): Promise<Json> {
    const { folders } = this.#options;
    if (method === "ping") return await answerServerRequest(method, params, null, folders);
    let answerRequest: AnswerRequest | null = null;
    if (origin === null) answerRequest = findAnswerer(method, this.#channel.inFlight());
    else if (hasAnswerer(origin)) answerRequest = origin.answerRequest;
    return await answerServerRequest(method, params, answerRequest, folders);
  }

  #onNotification(method: string, params: JsonObject, origin: PendingRequest | null): void {
    if (method === "notifications/cancelled" || method === "notifications/subscriptions/acknowledged") return;
    if (method === "notifications/message") {
      const call = origin ?? this.#onlyCall();
      if (call instanceof McpToolCall) {
        call.log(params);
        return;
      }
    }
    if (!this.#notification_rate.allowNext()) {
      this.#link.reportViolation("flood");
      return;
    }
    if (origin instanceof NonToolRequest) origin.notify(method, params);
    else this.#link.notify(method, params);
  }

  #onlyCall(): McpToolCall | null {
    return this.#calls.size === 1 ? this.#calls.values()[0]! : null;
  }
}

/** Notifications above this rate count as violations. */
const NOTIFICATIONS_PER_SECOND = 200;

class NotificationRate {
  #second = 0;
  #count = 0;

  /** Counts a notification. False when the limit of this second is exceeded. */
  allowNext(): boolean {
    const second = Math.floor(performance.now() / 1_000);
    if (this.#second !== second) {
      this.#second = second;
      this.#count = 0;
    }
    return ++this.#count <= NOTIFICATIONS_PER_SECOND;
  }
}
