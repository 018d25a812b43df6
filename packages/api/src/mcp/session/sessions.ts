/**
 * Sessions of the MCP revisions up to 2025-11-25, which begin with `initialize`. A session exists only for the caller
 * that opened it. Sessions are kept in memory: a client whose session is unknown opens a new one, and its invocations
 * are on disk in any case.
 */
import { randomBytes } from "node:crypto";
import { BackplaneError, IdTable, type JsonObject } from "@backplane/contract";
import type { Caller, Clock } from "@backplane/ports";
import type { McpClientResponse, McpRequestId } from "../protocol/json-rpc.ts";
import type { LogLevel } from "../protocol/log-levels.ts";
import type { Questions } from "./questions.ts";

export const SESSION_LIMITS = {
  sessions: 10_000,
  per_caller: 1_000,
  /** Each delegated token is a new caller, whose sessions are unused after its invocation. */
  per_invocation: 16,
  idle_ms: 3_600_000,
  /** Applies when the total limit is reached. */
  delegated_idle_ms: 60_000,
} as const;

const MAX_EARLY_CANCELS = 64;
/** Beyond this number, the oldest unanswered question is evicted. */
const MAX_UNANSWERED_QUESTIONS = 256;

/** A request in flight. */
export interface OpenCall {
  /** Null until the call has started. */
  cancel: (() => void) | null;
  cancelled: boolean;
  /** Answered or suspended: closing the connection no longer cancels the call. */
  done: boolean;
}

export function createOpenCall(call: { cancel(): void } | null): OpenCall {
  return { cancel: call === null ? null : () => call.cancel(), cancelled: false, done: false };
}

interface McpSessionParams {
  version: string;
  capabilities: JsonObject;
  server: string | null;
}

export class McpSession {
  readonly id: string;
  /** The session id that invocations of this session are recorded with. */
  readonly ref: string;
  readonly caller: Caller;
  readonly version: string;
  /** The capabilities that the client declared. */
  readonly capabilities: JsonObject;
  /** The binding whose server this session is for; null for the whole catalog. */
  readonly server: string | null;
  level: LogLevel = "info";
  /** Subscribed resources by URI, each with the function that unsubscribes. */
  readonly subscriptions = new Map<string, () => void>();
  used_at: number;
  /** Keyed by the client's request id. */
  readonly calls = new IdTable<OpenCall, McpRequestId>();
  /** Cancellations that arrived before their request, on another connection; the most recent ones. */
  readonly #early_cancels = new Set<McpRequestId>();
  /** Streams for notifications outside any request; the newest one receives them. */
  readonly #listeners: ((message: JsonObject) => void)[] = [];
  readonly #end_callbacks = new Set<() => void>();
  /** Unanswered questions sent to the client, by the request id of the gateway. */
  readonly #unanswered = new Map<McpRequestId, { questions: Questions; key: string }>();
  #questions_sent = 0;
  #has_ended = false;

  constructor(caller: Caller, params: McpSessionParams, now: number) {
    this.id = randomBytes(24).toString("base64url");
    this.ref = `mcp-${randomBytes(9).toString("hex")}`;
    this.caller = caller;
    this.version = params.version;
    this.capabilities = params.capabilities;
    this.server = params.server;
    this.used_at = now;
  }

  /** Whether the session has open streams or calls in flight. */
  get is_busy(): boolean {
    return this.#listeners.length > 0 || this.calls.size > 0;
  }

  cancelEarly(id: McpRequestId): void {
    if (this.#early_cancels.size >= MAX_EARLY_CANCELS)
      this.#early_cancels.delete(this.#early_cancels.values().next().value!);
    this.#early_cancels.add(id);
  }

  consumeEarlyCancel(id: McpRequestId): boolean {
    return this.#early_cancels.delete(id);
  }

  /** Returns the request id to send the question with. */
  registerQuestion(questions: Questions, key: string): McpRequestId {
    const id = `backplane-${++this.#questions_sent}`;
    this.#unanswered.set(id, { questions, key });
    if (this.#unanswered.size > MAX_UNANSWERED_QUESTIONS)
      this.#unanswered.delete(this.#unanswered.keys().next().value!);
    return id;
  }

  receiveResponse({ id, result, error }: McpClientResponse): void {
    const question = id === null ? undefined : this.#unanswered.get(id);
    if (question === undefined) return;
    this.#unanswered.delete(id!);
    if (result === null) question.questions.reject(question.key, error);
    else question.questions.answer(question.key, result);
  }

  notify(message: JsonObject): void {
    this.#listeners.at(-1)?.(message);
  }

  listen(listener: (message: JsonObject) => void, ended: () => void): () => void {
    this.#listeners.push(listener);
    this.#end_callbacks.add(ended);
    if (this.#has_ended) ended();
    return () => {
      this.#listeners.splice(this.#listeners.indexOf(listener), 1);
      this.#end_callbacks.delete(ended);
    };
  }

  /** Keeps the subscription until the session ends, in place of an earlier one to the same resource. */
  keepSubscription(uri: string, unsubscribe: () => void): void {
    this.subscriptions.get(uri)?.();
    // The session may have ended while the server was asked.
    if (this.#has_ended) unsubscribe();
    else this.subscriptions.set(uri, unsubscribe);
  }

  end(): void {
    this.#has_ended = true;
    for (const ended of this.#end_callbacks) ended();
    for (const unsubscribe of this.subscriptions.values()) unsubscribe();
    this.subscriptions.clear();
  }
}

export class McpSessions {
  readonly #clock: Clock;
  readonly #limits: { sessions: number; per_caller: number };
  readonly #sessions = new Map<string, McpSession>();
  /** The sessions of each caller, oldest first. */
  readonly #callers = new Map<string, Set<McpSession>>();

  constructor(clock: Clock, limits: { sessions: number; per_caller: number } = SESSION_LIMITS) {
    this.#clock = clock;
    this.#limits = limits;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** At the limit of a caller, its oldest session that is not busy is evicted; sessions of other callers are not. */
  open(caller: Caller, params: McpSessionParams): McpSession {
    const key = keyOf(caller);
    const caller_sessions = this.#callers.get(key) ?? new Set();
    const max = caller.delegation === undefined ? this.#limits.per_caller : SESSION_LIMITS.per_invocation;
    if (caller_sessions.size >= max) {
      const oldest = [...caller_sessions].find((session) => !session.is_busy);
      if (oldest !== undefined) this.remove(oldest);
    }
    if (this.#sessions.size >= this.#limits.sessions) this.#sweep();
    if (this.#sessions.size >= this.#limits.sessions || caller_sessions.size >= max)
      throw new BackplaneError("request.overloaded", "Too many MCP sessions are open.", {
        details: { retry_after_ms: 5_000 },
      });
    const session = new McpSession(caller, params, this.#clock.monotonic());
    this.#sessions.set(session.id, session);
    this.#callers.set(key, caller_sessions.add(session));
    return session;
  }

  /** A session belongs to one endpoint and is unknown at all others. */
  find(caller: Caller, id: string, server: string | null): McpSession | null {
    const session = this.#sessions.get(id);
    if (session === undefined || keyOf(session.caller) !== keyOf(caller)) return null;
    if (session.server !== server) return null;
    const now = this.#clock.monotonic();
    if (this.#isIdle(session, now)) {
      this.remove(session);
      return null;
    }
    session.used_at = now;
    return session;
  }

  remove(session: McpSession): void {
    const key = keyOf(session.caller);
    const caller_sessions = this.#callers.get(key);
    caller_sessions?.delete(session);
    if (caller_sessions?.size === 0) this.#callers.delete(key);
    this.#sessions.delete(session.id);
    session.end();
  }

  #sweep(): void {
    const now = this.#clock.monotonic();
    const { idle_ms, delegated_idle_ms } = SESSION_LIMITS;
    for (const session of this.#sessions.values()) {
      const max_idle_ms = session.caller.delegation === undefined ? idle_ms : delegated_idle_ms;
      if (this.#isIdle(session, now, max_idle_ms)) this.remove(session);
    }
  }

  #isIdle(session: McpSession, now: number, max_idle_ms: number = SESSION_LIMITS.idle_ms): boolean {
    return !session.is_busy && now - session.used_at > max_idle_ms;
  }
}

function keyOf({ actor, scope }: Caller): string {
  return `${actor}\n${scope.org_id}\n${scope.project_id}`;
}
