/**
 * Sessions of clients that negotiated. One is its caller's alone: for anybody else it does not exist. They live in
 * memory, because a client whose session is unknown begins a new one; what it called is on disk either way.
 */
import { randomBytes } from "node:crypto";
import { BackplaneError, IdTable, type JsonObject } from "@backplane/contract";
import type { Caller, Clock } from "@backplane/kernel";
import type { RpcAnswer, RpcId } from "./json-rpc.ts";
import type { LogLevel } from "./log-levels.ts";
import type { Questions } from "./questions.ts";

export const SESSION_LIMITS = {
  sessions: 10_000,
  per_caller: 1_000,
  /** A plugin's token is a new caller with every invocation, and nobody comes back for what it left. */
  per_invocation: 16,
  idle_ms: 3_600_000,
  /** When there is no room for anybody. */
  delegated_idle_ms: 60_000,
} as const;

const EARLY = 64;
/** Questions whose answer never came are forgotten beyond this. */
const ASKED = 256;

/** A request that is under way. */
export interface OpenCall {
  /** Null until it has begun. */
  cancel: (() => void) | null;
  cancelled: boolean;
  /** Answered, or parked: a connection that closes now cancels nothing. */
  over: boolean;
}

export function openCall(work: { cancel(): void } | null): OpenCall {
  return { cancel: work === null ? null : () => work.cancel(), cancelled: false, over: false };
}

interface OpenedSession {
  version: string;
  capabilities: JsonObject;
  server: string | null;
}

export class McpSession {
  readonly id: string;
  /** As the calls of this session are recorded. */
  readonly ref: string;
  readonly caller: Caller;
  readonly version: string;
  /** What the client said it can do. */
  readonly capabilities: JsonObject;
  /** The binding whose server this session is for; null: the whole catalog. */
  readonly server: string | null;
  level: LogLevel = "info";
  /** Resources that the client wants to hear of, with how to stop. */
  readonly subscriptions = new Map<string, () => void>();
  used_at: number;
  /** By the id of the client's request. */
  readonly calls = new IdTable<OpenCall, RpcId>();
  /** Cancels that overtook their request on another connection; the last few. */
  readonly #early = new Set<RpcId>();
  /** Streams that wait for what is told outside of any request; the newest gets it. */
  readonly #listeners: ((message: JsonObject) => void)[] = [];
  readonly #ends = new Set<() => void>();
  /** Questions that were put to the client, by the id of our request. */
  readonly #asked = new Map<RpcId, { questions: Questions; key: string }>();
  #asks = 0;

  constructor(caller: Caller, opened: OpenedSession, now: number) {
    this.id = randomBytes(24).toString("base64url");
    this.ref = `mcp-${randomBytes(9).toString("hex")}`;
    this.caller = caller;
    this.version = opened.version;
    this.capabilities = opened.capabilities;
    this.server = opened.server;
    this.used_at = now;
  }

  /** Something is under way in it. */
  get busy(): boolean {
    return this.#listeners.length > 0 || this.calls.size > 0;
  }

  cancelEarly(id: RpcId): void {
    if (this.#early.size >= EARLY) this.#early.delete(this.#early.values().next().value!);
    this.#early.add(id);
  }

  wasCancelled(id: RpcId): boolean {
    return this.#early.delete(id);
  }

  /** The id under which a question is put to the client. */
  asking(questions: Questions, key: string): RpcId {
    const id = `backplane-${++this.#asks}`;
    this.#asked.set(id, { questions, key });
    if (this.#asked.size > ASKED) this.#asked.delete(this.#asked.keys().next().value!);
    return id;
  }

  answered({ id, result, error }: RpcAnswer): void {
    const asked = id === null ? undefined : this.#asked.get(id);
    if (asked === undefined) return;
    this.#asked.delete(id!);
    if (result === null) asked.questions.refuse(asked.key, error);
    else asked.questions.answer(asked.key, result);
  }

  tell(message: JsonObject): void {
    this.#listeners.at(-1)?.(message);
  }

  listen(listener: (message: JsonObject) => void, ended: () => void): () => void {
    this.#listeners.push(listener);
    this.#ends.add(ended);
    return () => {
      this.#listeners.splice(this.#listeners.indexOf(listener), 1);
      this.#ends.delete(ended);
    };
  }

  end(): void {
    for (const ended of this.#ends) ended();
    for (const leave of this.subscriptions.values()) leave();
    this.subscriptions.clear();
  }
}

export class McpSessions {
  readonly #clock: Clock;
  readonly #limits: { sessions: number; per_caller: number };
  readonly #sessions = new Map<string, McpSession>();
  /** Oldest first. */
  readonly #callers = new Map<string, Set<McpSession>>();

  constructor(clock: Clock, limits: { sessions: number; per_caller: number } = SESSION_LIMITS) {
    this.#clock = clock;
    this.#limits = limits;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** A caller that opens more and more loses its oldest idle ones, and takes no other caller's place. */
  open(caller: Caller, opened: OpenedSession): McpSession {
    const key = keyOf(caller);
    const own = this.#callers.get(key) ?? new Set();
    const most = caller.delegation === undefined ? this.#limits.per_caller : SESSION_LIMITS.per_invocation;
    if (own.size >= most) {
      const oldest = [...own].find((session) => !session.busy);
      if (oldest !== undefined) this.remove(oldest);
    }
    if (this.#sessions.size >= this.#limits.sessions) this.#sweep();
    if (this.#sessions.size >= this.#limits.sessions || own.size >= most)
      throw new BackplaneError("request.overloaded", "Too many MCP sessions are open already.", {
        details: { retry_after_ms: 5_000 },
      });
    const session = new McpSession(caller, opened, this.#clock.monotonic());
    this.#sessions.set(session.id, session);
    this.#callers.set(key, own.add(session));
    return session;
  }

  /** A session of one endpoint is none of another. */
  find(caller: Caller, id: string, server: string | null): McpSession | null {
    const session = this.#sessions.get(id);
    if (session === undefined || keyOf(session.caller) !== keyOf(caller)) return null;
    if (session.server !== server) return null;
    const now = this.#clock.monotonic();
    if (this.#idle(session, now)) {
      this.remove(session);
      return null;
    }
    session.used_at = now;
    return session;
  }

  remove(session: McpSession): void {
    const key = keyOf(session.caller);
    const own = this.#callers.get(key);
    own?.delete(session);
    if (own?.size === 0) this.#callers.delete(key);
    this.#sessions.delete(session.id);
    session.end();
  }

  #sweep(): void {
    const now = this.#clock.monotonic();
    const { idle_ms, delegated_idle_ms } = SESSION_LIMITS;
    for (const session of this.#sessions.values()) {
      const longest = session.caller.delegation === undefined ? idle_ms : delegated_idle_ms;
      if (this.#idle(session, now, longest)) this.remove(session);
    }
  }

  #idle(session: McpSession, now: number, longest: number = SESSION_LIMITS.idle_ms): boolean {
    return !session.busy && now - session.used_at > longest;
  }
}

function keyOf({ actor, scope }: Caller): string {
  return `${actor}\n${scope.org_id}\n${scope.project_id}`;
}
