/**
 * Serves several clients on one session (fanout.attach, fanout.heartbeat). Persisted events come from the
 * feed of the tape and all others from the bus. Each event is serialized once for all connections of its
 * session. A session uses resources here only while a client watches it or an answer is unfinished.
 */

import {
  AGENT_SEPARATOR,
  BackplaneError,
  type BusEvent,
  FANOUT_LIMITS,
  type IdSource,
  KERNEL_SESSION,
  LOOP_LIMITS,
} from "@backplane/contract";
import {
  type Attachment,
  type Caller,
  type ChangeEvents,
  type Clock,
  causeOf,
  type Fanout,
  type Logger,
  type SessionKey,
  type SessionRef,
  type SessionStore,
  type Timer,
} from "@backplane/ports";
import {
  type Bus,
  type BusPort,
  checkClientSessionId,
  DEFAULT_WORKSPACE,
  type KernelPublishOptions,
  type LiveSessions,
  type Sessions,
  type TapeFeed,
} from "@backplane/session";
import {
  ANSWER_ENDS,
  isAnnouncement,
  isTaped,
  isUncheckedAnswer,
  isVisibleTo,
  subjectOf,
} from "./client-events.ts";
import { Envelopes, withLastEntryId } from "./envelopes.ts";
import type { Hub } from "./hub.ts";
import { Hubs } from "./hubs.ts";
import {
  type AttachOptions,
  type ConnectionDeps,
  type DetachReason,
  SubscriberConnection,
} from "./subscriber-connection.ts";
import { UnfinishedAnswers } from "./unfinished-answers.ts";

/** How long a shutdown waits for plugins that handle the end of the connections slowly. */
const ANNOUNCE_MS = 1_000;

type FanoutLimits = Record<keyof typeof FANOUT_LIMITS, number>;

export interface FanoutDeps {
  store: { sessions: Pick<SessionStore, "replay"> };
  sessions: Pick<Sessions, "open" | "get">;
  bus: Pick<Bus, "kernel">;
  feed: TapeFeed;
  /**
   * Resolves the workspace of a session id on the bus. If absent, an event reaches the session's watchers in every
   * workspace.
   */
  live?: Pick<LiveSessions, "findKey">;
  clock: Clock;
  ids: IdSource;
  log: Logger;
  limits?: Partial<FanoutLimits>;
}

export interface FanoutService extends Fanout {
  /**
   * Sends an accepted answer of a plugin to the watchers of its session. Plugins have already received it from the bus.
   */
  sendAnswer(answer: ChangeEvents["approval.answered"]): void;
  /**
   * Refuses new connections and publishes the end of the current ones, while plugins still receive events. Resolves
   * when the events are delivered, or after a short time. The connections stay open until `close`.
   */
  announceShutdown(): Promise<void>;
  /** Ends every connection with reason `shutdown`. */
  close(): void;
}

export function createFanout(deps: FanoutDeps): FanoutService {
  return new SessionFanout(deps);
}

class SessionFanout implements FanoutService {
  readonly #deps: FanoutDeps;
  readonly #limits: FanoutLimits;
  readonly #port: BusPort<KernelPublishOptions>;
  readonly #unfinished: UnfinishedAnswers;
  readonly #hubs: Hubs;
  readonly #connection: ConnectionDeps;
  readonly #stopFeed: () => void;
  #timer: Timer | null = null;
  /** Ids of the detach events of a shutdown that have not been delivered yet. */
  readonly #undelivered = new Set<string>();
  #shutdown_announcement: Promise<void> | null = null;
  #onDelivered: () => void = () => {};
  #closed = false;

  constructor(deps: FanoutDeps) {
    this.#deps = deps;
    this.#limits = { ...FANOUT_LIMITS, ...deps.limits };
    const { buffered_bytes, partial_bytes } = this.#limits;
    const envelopes = new Envelopes(deps);
    this.#unfinished = new UnfinishedAnswers(partial_bytes);
    this.#hubs = new Hubs({ envelopes, unfinished: this.#unfinished, recent_chars: buffered_bytes / 8 });
    this.#connection = {
      envelopes,
      replay: (key, after_id, limit) => deps.store.sessions.replay(key, after_id, limit),
      log: deps.log,
      buffered_bytes,
      onDetached: (connection, reason) => this.#onDetached(connection, reason),
    };
    this.#port = deps.bus.kernel("session-context");
    this.#port.subscribe("*", (event) => this.#onEvent(event));
    this.#stopFeed = deps.feed.onWritten((key, items) => {
      try {
        this.#hubs.get(key)?.publishWritten(items);
      } catch (error) {
        // The entries are on disk, so a failure here must not reach the writer.
        deps.log.error(
          { err: error, session_id: key.session_id },
          "sending written entries to watchers failed",
        );
      }
    });
  }

  async attach(caller: Caller, ref: SessionRef, options: AttachOptions): Promise<Attachment> {
    const { clock, ids, sessions } = this.#deps;
    const session_id = checkClientSessionId(ref.session_id);
    const key = { scope: caller.scope, workspace: ref.workspace ?? DEFAULT_WORKSPACE, session_id };
    // The hub is pinned before the row is read, so that it receives every entry written from here on.
    const hub = this.#hubs.pin(key);
    try {
      const row = await (mayWrite(caller) ? sessions.open(key, causeOf(caller)) : sessions.get(key));
      if (this.#shutdown_announcement !== null) throw new BackplaneError("gateway_stopping");
      const last = Math.max(row.last_entry_id, hub.last_entry_id);
      const { since_entry, adapter_id, replaces } = options;
      for (const connection of hub.connections) {
        if (connection.id === replaces && connection.actor === caller.actor) connection.end("timeout");
      }
      const cursor = Math.min(since_entry ?? last, last);
      const id = ids.next("connection");
      const client = { id, actor: caller.actor, hub, cursor, now: clock.monotonic() };
      const connection = new SubscriberConnection(client, options, this.#connection);
      hub.connections.add(connection);
      this.#publish(key, "session.context.attached", { session_id, connection_id: id, adapter_id });
      this.#scheduleReap();
      void connection.read({ replay: since_entry !== null });
      return {
        connection_id: connection.id,
        session: withLastEntryId(row, last),
        heartbeat() {
          connection.last_heartbeat_at = clock.monotonic();
        },
        detach: (reason = "client_close") => connection.detach(reason),
      };
    } finally {
      this.#hubs.unpin(hub);
    }
  }

  get heartbeat_ms(): number {
    return this.#limits.heartbeat_ms;
  }

  watches(key: SessionKey): boolean {
    return (this.#hubs.get(key)?.connections.size ?? 0) > 0;
  }

  stats(): { sessions: number; connections: number } {
    return this.#hubs.stats();
  }

  sendAnswer({ scope, source, payload }: ChangeEvents["approval.answered"]): void {
    const { clock, ids } = this.#deps;
    const to = { session_id: KERNEL_SESSION, source, ...scope };
    const stamp = { id: ids.next("event"), ts: clock.now() / 1000 };
    this.#publishKernelEvent({ ...stamp, ...to, kind: "approval.response", payload });
  }

  announceShutdown(): Promise<void> {
    this.#shutdown_announcement ??= this.#announceShutdown();
    return this.#shutdown_announcement;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    void this.announceShutdown();
    this.#stopFeed();
    this.#timer?.stop();
    for (const connection of this.#hubs.connections()) connection.end("shutdown");
    this.#unfinished.sweep(Number.POSITIVE_INFINITY);
    // The port is detached last, because the detach events are published through it.
    this.#port.detach();
    this.#onDelivered();
  }

  #announceShutdown(): Promise<void> {
    for (const { hub, id } of this.#hubs.connections()) {
      const event = this.#publishDetached(hub, id, "shutdown");
      if (event !== null) this.#undelivered.add(event.id);
    }
    if (this.#undelivered.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = this.#deps.clock.after(ANNOUNCE_MS, resolve);
      this.#onDelivered = () => {
        timer.stop();
        resolve();
      };
    });
  }

  #onEvent(event: BusEvent): void {
    const { kind } = event;
    if (this.#undelivered.size > 0 && this.#undelivered.delete(event.id)) {
      if (this.#undelivered.size === 0) this.#onDelivered();
      return;
    }
    if (kind === "assistant.message.delta") {
      this.#onDelta(event as BusEvent<typeof kind>);
      return;
    }
    if (ANSWER_ENDS.has(kind)) this.#unfinished.drop(event, event.session_id);
    else if (kind === "llm.call.response") this.#unfinished.dropThinking(event, event.session_id);
    if (kind === "llm.call.delta") {
      this.#onThinking(event as BusEvent<typeof kind>);
      return;
    }
    if (this.#hubs.size === 0) return;
    if (event.session_id !== KERNEL_SESSION) {
      if (!isTaped(event))
        for (const hub of this.#findHubs(event, this.#workspaceOf(event))) hub.publish(event);
      return;
    }
    if (!isUncheckedAnswer(event)) this.#publishKernelEvent(event);
  }

  #publishKernelEvent(event: BusEvent): void {
    const { kind } = event;
    const subject = subjectOf(event);
    if (subject !== null) {
      for (const hub of this.#hubs.forSession(event, subject)) hub.publish(event);
      if (kind.startsWith("approval.")) this.#publishToAncestors(event, subject);
    } else if (isAnnouncement(kind)) {
      for (const hub of this.#hubs.all()) if (isVisibleTo(hub.key.scope, event)) hub.publish(event);
    }
  }

  /**
   * A client cannot attach to the session of a sub-agent, so the watchers of all its ancestor sessions receive its
   * approval events.
   */
  #publishToAncestors(event: BusEvent, subject: string): void {
    for (let id = subject; id.includes(AGENT_SEPARATOR); ) {
      id = id.slice(0, id.lastIndexOf(AGENT_SEPARATOR));
      for (const hub of this.#hubs.forSession(event, id)) hub.publish(event);
    }
  }

  #onDelta(event: BusEvent<"assistant.message.delta">): void {
    const workspace = this.#workspaceOf(event);
    const hubs = this.#findHubs(event, workspace);
    if (hubs.some((hub) => hub.isLate(event))) return;
    this.#unfinished.add(event, workspace, this.#deps.clock.monotonic());
    if (this.#timer === null) this.#scheduleReap();
    for (const hub of hubs) hub.publishDelta(event);
  }

  /**
   * Watchers receive the thinking of the model as it streams. The text of the answer reaches them as
   * assistant.message.delta, and partial tool calls do not reach them.
   */
  #onThinking(event: BusEvent<"llm.call.delta">): void {
    if (event.payload.thinking === undefined || event.payload.thinking === "") return;
    const workspace = this.#workspaceOf(event);
    const hubs = this.#findHubs(event, workspace);
    if (hubs.some((hub) => hub.isLate(event))) return;
    this.#unfinished.addThinking(event, workspace, this.#deps.clock.monotonic());
    if (this.#timer === null) this.#scheduleReap();
    for (const hub of hubs) hub.publishDelta(event);
  }

  #workspaceOf(event: BusEvent): string | null {
    return this.#deps.live?.findKey(event, event.session_id).workspace ?? null;
  }

  #findHubs(event: BusEvent, workspace: string | null): readonly Hub[] {
    const hubs = this.#hubs.forSession(event, event.session_id);
    return workspace === null ? hubs : hubs.filter(({ key }) => key.workspace === workspace);
  }

  #onDetached(connection: SubscriberConnection, reason: DetachReason): void {
    const { hub, id } = connection;
    if (this.#shutdown_announcement === null) this.#publishDetached(hub, id, reason);
    this.#hubs.release(hub);
  }

  #publishDetached({ key }: Hub, connection_id: string, reason: DetachReason): BusEvent | null {
    const { session_id } = key;
    return this.#publish(key, "session.context.detached", { session_id, connection_id, reason });
  }

  #publish(
    { scope }: SessionKey,
    kind: "session.context.attached" | "session.context.detached",
    payload: Record<string, string>,
  ): BusEvent | null {
    try {
      const event = this.#port.tryPublish<string>(kind, payload, { session_id: KERNEL_SESSION, scope });
      if (event === null)
        this.#deps.log.warn(
          { kind, ...payload },
          "the queue of the kernel session is full; an event was dropped",
        );
      return event;
    } catch (error) {
      this.#deps.log.warn(
        { err: error, kind, ...payload },
        "an attach or detach event could not be published",
      );
      return null;
    }
  }

  /** One timer serves all connections and unfinished answers. No timer runs while there are none. */
  #scheduleReap(): void {
    if (this.#timer !== null || this.#closed) return;
    if (this.#hubs.size === 0 && this.#unfinished.size === 0) return;
    this.#timer = this.#deps.clock.after(this.#limits.reap_ms, () => {
      this.#timer = null;
      this.#reap(this.#deps.clock.monotonic());
      this.#scheduleReap();
    });
  }

  #reap(now: number): void {
    this.#unfinished.sweep(now - LOOP_LIMITS.model_ms);
    const oldest = now - this.#limits.heartbeat_ms;
    for (const connection of this.#hubs.connections()) {
      if (connection.last_heartbeat_at < oldest) connection.end("timeout");
    }
  }
}

/**
 * A client that may write creates the session if it does not exist. Other clients can only watch an existing
 * session.
 */
function mayWrite({ admin, delegation, role, scopes }: Caller): boolean {
  // A read_only call has the role guest, whatever scopes its token has.
  if (role === "guest") return false;
  if (delegation !== undefined) return delegation.scopes.includes("sessions:write");
  return admin || scopes.includes("sessions:write") || scopes.includes("admin");
}
