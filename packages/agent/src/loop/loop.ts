/**
 * The agent loop. A session has one turn at a time. A message that arrives during a turn is written to the tape
 * immediately and joins at the next step; if its sender may not join, it waits and begins its own turn. A turn begins
 * with its row and the user's message in one transaction and ends with its row and the answer in another, so that the
 * rows and the tape agree after a crash.
 */

import {
  AGENT_SEPARATOR,
  BackplaneError,
  type BusEvent,
  codeOf,
  IdTable,
  isId,
  type Run,
  toBackplaneError,
} from "@backplane/contract";
import { type NodeLease, toDelegatedCaller } from "@backplane/door";
import {
  type AcceptedMessage,
  type Caller,
  type Changes,
  type InvocationRow,
  type Logger,
  type RunRow,
  type Scope,
  type SessionKey,
  type UserMessage,
  withChannel,
} from "@backplane/ports";
import { type LiveSessions, sessionMapKey } from "@backplane/session";
import type { ActiveTurns } from "./active-turns.ts";
import {
  beginTurn,
  mayJoin,
  messageOf,
  type PreparedMessage,
  prepareMessage,
  type TurnRequest,
  writeMessage,
} from "./begin-turn.ts";
import { endOrphan, keyOf, resumeTurn } from "./resume.ts";
import { type RunTurnDeps, runTurn } from "./run-turn.ts";
import type { StopReason, Turn } from "./turn.ts";

export interface AcceptedTurn extends AcceptedMessage {
  /** Null when the message joined a turn of another gateway. */
  turn: Turn | null;
}

export interface LoopDeps extends RunTurnDeps {
  live: LiveSessions;
  log: Logger;
  turns: ActiveTurns;
  changes: Pick<Changes, "emit">;
  node_lease: Pick<NodeLease, "mayTakeOver">;
  /** Whether the policy has rules for this channel. */
  isChannelLimited(scope: Scope, channel: string): Promise<boolean>;
}

interface SessionSlot {
  /** Resolves to null if the session is reserved for work other than a turn, or a recovered turn does not resume. */
  turn: Promise<Turn | null>;
  release(): void;
  /** Set while the turn runs. */
  running: Turn | null;
  /** Whether the session is reserved for work other than a turn, such as a reset. */
  is_exclusive: boolean;
}

const MAX_JOINED_MESSAGES = 100;
/** How often the record of a turn that another gateway holds is read again. */
const OTHER_GATEWAY_POLL_MS = 500;

export class Loop {
  readonly #deps: LoopDeps;
  readonly #slots = new IdTable<SessionSlot>();
  /** Ids of the message events that the loop publishes itself and therefore does not handle. */
  readonly #published = new Set<string>();
  /** The recovered turns of stopped gateways start after this promise resolves. */
  readonly #ready = Promise.withResolvers<void>();
  #stopping = false;

  constructor(deps: LoopDeps) {
    this.#deps = deps;
    const { port } = deps;
    port.subscribe("user.message.received", (event) => this.#onMessage(event));
    port.subscribe("user.interrupt", (event) => {
      this.interrupt(deps.live.findKey(event, event.session_id), "user");
    });
  }

  /**
   * Resolves when the message is on disk and its turn has begun, or when the message has joined the running
   * turn.
   */
  async accept(request: TurnRequest): Promise<AcceptedTurn> {
    if (this.#stopping) throw new BackplaneError("gateway_stopping");
    const map_key = sessionMapKey(request.key);
    const slot = this.#slots.get(map_key);
    if (slot !== undefined) {
      if (request.trigger !== "message") throw busyHereError(slot);
      const turn = await slot.turn.catch(() => null);
      const joined = await this.#tryJoin(turn, request);
      if (joined !== null) return joined;
      // A plugin that may not start a turn must not wait for the running one.
      await this.#deps.linkChildRun(request);
      await (turn?.stopped === "lost" ? turn.released : turn?.settled);
      return await this.accept(request);
    }
    const release = this.#deps.live.acquire(request.key);
    const beginning = this.#begin(request);
    const new_slot: SessionSlot = {
      turn: beginning.then(({ turn }) => turn),
      release,
      running: null,
      is_exclusive: false,
    };
    // The caller receives the failure from `beginning`. This handler prevents an unhandled rejection.
    new_slot.turn.catch(() => {});
    this.#slots.set(map_key, new_slot);
    try {
      const { turn, ...ids } = await beginning;
      new_slot.running = turn;
      void this.#runToEnd(map_key, new_slot, turn);
      return { ...ids, turn };
    } catch (error) {
      this.#slots.delete(map_key);
      release();
      const run_id = blockingRunOf(error);
      if (run_id === null || request.trigger !== "message") throw error;
      return await this.#joinOnOtherGateway(request, run_id);
    }
  }

  /**
   * Called when an approved call ends. If its turn has ended before, the conversation continues from the result, with
   * at most the rights of the original actor. A sub-agent whose turn has ended does not continue, because the call that
   * waited for it has ended too.
   */
  resume(key: SessionKey, call: Pick<InvocationRow, "requested_by" | "channel">): void {
    if (this.#stopping || this.#slots.has(sessionMapKey(key))) return;
    if (key.session_id.includes(AGENT_SEPARATOR)) return;
    this.#resolveCaller(key, call)
      .then((caller) => caller && this.accept({ key, caller, message: null, trigger: "approval" }))
      .catch((error: unknown) => {
        // When another turn is running, that turn reads the result from the tape.
        if (blockingRunOf(error) === null)
          this.#reportError(key, "the conversation could not be resumed", error);
      });
  }

  async #resolveCaller(
    { scope }: SessionKey,
    { requested_by: actor, channel }: Pick<InvocationRow, "requested_by" | "channel">,
  ): Promise<Caller | null> {
    if (!isId("invocation", actor)) {
      const caller: Caller = { actor, scope, role: "user", scopes: [], admin: false };
      return channel === null ? caller : withChannel(caller, channel);
    }
    const row = await this.#deps.store.invocations.get(scope, actor);
    return row === null ? null : toDelegatedCaller(row);
  }

  /** Returns false if the session has no turn, even if it is reserved for other work. */
  interrupt(key: SessionKey, reason: StopReason): boolean {
    const slot = this.#slots.get(sessionMapKey(key));
    if (slot === undefined || slot.is_exclusive) return false;
    // A turn that is still beginning is stopped as soon as it has begun.
    if (slot.running !== null) slot.running.stop(reason);
    else slot.turn.then((turn) => turn?.stop(reason)).catch(() => {});
    return true;
  }

  /**
   * Runs work that changes the chain of the session. No turn begins before the work is done. Throws `session.busy` if a
   * turn or other such work is running.
   */
  async runExclusively<T>(key: SessionKey, work: () => Promise<T>): Promise<T> {
    const map_key = sessionMapKey(key);
    const slot = this.#slots.get(map_key);
    if (slot !== undefined) throw busyHereError(slot, "; interrupt it first");
    const release = this.#deps.live.acquire(key);
    const { promise: turn, resolve } = Promise.withResolvers<null>();
    this.#slots.set(map_key, { turn, release, running: null, is_exclusive: true });
    try {
      return await work();
    } finally {
      this.#slots.delete(map_key);
      release();
      resolve(null);
    }
  }

  findRunningTurn(scope: Scope, session_id: string): Turn | undefined {
    return this.#slots.get(sessionMapKey(this.#deps.live.findKey(scope, session_id)))?.running ?? undefined;
  }

  /** Resolves when the turn of the session has begun or resumed; undefined if the session has none here. */
  findTurn(key: SessionKey): Promise<Turn | null> | undefined {
    return this.#slots.get(sessionMapKey(key))?.turn;
  }

  /** Ends every turn and waits until each end is recorded. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#ready.resolve();
    const turns = this.#slots.values().map(({ turn }) => turn.catch(() => null));
    const all = (await Promise.all(turns)).filter((turn) => turn !== null);
    for (const turn of all) turn.stop("shutdown");
    await Promise.all(all.map((turn) => turn.settled));
  }

  /** Starts the recovered turns of stopped gateways. Called when the tools that they need are loaded. */
  resumeTurns(): void {
    this.#ready.resolve();
  }

  /** Called after the gateway's lease has expired. Stops the turns that another gateway has taken over. */
  async checkHolds(): Promise<void> {
    for (const turn of this.#deps.turns.all()) {
      if (turn.stopped === "lost") continue;
      if ((await this.#deps.store.runs.checkHold(turn.hold)) === null) turn.stop("lost");
    }
  }

  /**
   * Claims the turns of gateways that died. Each claimed turn reserves its session as soon as the session is free, and
   * resumes or ends when the loop is ready. `recoverCalls` recovers the calls that were claimed with the turns; it runs
   * before any turn waits for them.
   */
  async recoverTurns(recoverCalls: () => Promise<unknown> = async () => {}, limit = 1_000): Promise<number> {
    const { store, node_id, clock, log, node_lease } = this.#deps;
    if (!node_lease.mayTakeOver()) return 0;
    for (let recovered = 0; ; ) {
      if (this.#stopping) return recovered;
      const orphans = await store.runs.claimOrphans(node_id, clock.now(), limit);
      if (orphans.length > 0) await recoverCalls();
      for (const run of orphans) this.#recoverTurn(run);
      recovered += orphans.length;
      if (orphans.length === limit) continue;
      if (recovered > 0) log.info({ runs: recovered }, "recovered turns of an earlier gateway");
      return recovered;
    }
  }

  #recoverTurn(run: RunRow): void {
    const key = keyOf(run);
    const map_key = sessionMapKey(key);
    const other_slot = this.#slots.get(map_key);
    if (other_slot !== undefined) {
      // A session has one turn, so the other holder is a request that is about to be refused, or work of
      // another kind.
      void other_slot.turn
        .catch(() => null)
        .then((turn) => turn?.released)
        .then(() => this.#recoverTurn(run));
      return;
    }
    let release = () => {};
    const slot: SessionSlot = {
      turn: Promise.resolve(null),
      release: () => release(),
      running: null,
      is_exclusive: false,
    };
    const begin = async (): Promise<Turn | null> => {
      await this.#ready.promise;
      // The run is left unchanged, so that the next gateway recovers it.
      if (this.#stopping) return null;
      release = this.#deps.live.acquire(key);
      return await resumeTurn(this.#deps, run);
    };
    slot.turn = begin()
      .catch(async (error: unknown) => {
        await this.#endOrphan(run, toBackplaneError(error));
        return null;
      })
      .then((turn) => {
        slot.running = turn;
        if (turn !== null) void this.#runToEnd(map_key, slot, turn);
        else {
          this.#slots.delete(map_key);
          release();
        }
        return turn;
      });
    this.#slots.set(map_key, slot);
  }

  async #endOrphan(run: RunRow, failure: BackplaneError): Promise<void> {
    try {
      await endOrphan(this.#deps, run, failure);
    } catch (error) {
      this.#deps.log.error({ err: error, run_id: run.id }, "an interrupted turn could not be ended");
    }
  }

  /** Handles a message that a plugin published itself. */
  async #onMessage(event: BusEvent<"user.message.received">): Promise<void> {
    if (this.#published.delete(event.id)) return;
    const { org_id, project_id, session_id, payload, source } = event;
    const key = this.#deps.live.findKey({ org_id, project_id }, session_id);
    const caller: Caller = {
      actor: `plugin:${source}`,
      scope: key.scope,
      role: "user",
      scopes: [],
      admin: false,
      channel: source,
    };
    // Not awaited, because a turn must never block the queue of its session (bus.fifo).
    void this.accept({ key, caller, message: messageOf(payload), trigger: "message", event }).catch(
      (error: unknown) => this.#reportError(key, "the message could not be accepted", error),
    );
  }

  async #begin(request: TurnRequest): Promise<AcceptedTurn & { turn: Turn }> {
    const prepared = this.#prepare(request);
    const { once } = request;
    const begin_request =
      once === undefined
        ? request
        : { ...request, once: { ...once, response_fields: { event_id: prepared.event_id } } };
    const { turn, entry_id } = await beginTurn(this.#deps, begin_request, prepared.items);
    prepared.publish();
    return { entry_id, event_id: prepared.event_id, run_id: turn.run.id, turn };
  }

  /** Returns null when the message must not join this turn. */
  async #tryJoin(turn: Turn | null, request: TurnRequest): Promise<AcceptedTurn | null> {
    if (turn === null || (await this.#isFromOtherLimitedChannel(turn.caller.channel, request))) return null;
    if (turn.closing || turn.stopped === "lost") return null;
    if (!mayJoin(turn.caller, request.caller)) return null;
    try {
      return await this.#join(turn, request);
    } catch (error) {
      if (codeOf(error) !== "run.taken_over") throw error;
      turn.stop("lost");
      return null;
    }
  }

  /** A message of a limited channel must not join a turn of another channel, which may have more tools. */
  async #isFromOtherLimitedChannel(
    turn_channel: string | undefined,
    { key, caller }: TurnRequest,
  ): Promise<boolean> {
    const { channel } = caller;
    if (channel === undefined || channel === turn_channel) return false;
    return await this.#deps.isChannelLimited(key.scope, channel);
  }

  /** Appends the message to the tape. The gateway that holds the turn reads the message at its next step. */
  async #joinOnOtherGateway(request: TurnRequest, run_id: string): Promise<AcceptedTurn> {
    const { persister, store } = this.#deps;
    const { key, caller, once } = request;
    const run = await store.runs.get(key.scope, run_id);
    // Only the actor of the other turn is known, not its rights, so no other actor may join.
    if (run?.status === "running" && run.requested_by !== caller.actor) throw busyOnOtherGatewayError(run_id);
    if (run?.status === "running" && (await this.#isFromOtherLimitedChannel(run.channel, request)))
      throw busyOnOtherGatewayError(run_id);
    const prepared = this.#prepare(request);
    const { event_id } = prepared;
    const claim = once === undefined ? undefined : { ...once, response_fields: { run_id, event_id } };
    const ids =
      run?.status === "running"
        ? await persister.appendInTransaction(key, prepared.items, ({ entries }) =>
            store.runs.join(run_id, MAX_JOINED_MESSAGES, { key, entries }, claim),
          )
        : null;
    if (ids !== null) {
      prepared.publish();
      return { entry_id: ids.last_id, event_id, run_id, turn: null };
    }
    if ((await store.runs.get(key.scope, run_id))?.status === "running")
      throw busyOnOtherGatewayError(run_id);
    return await this.accept(request);
  }

  async #join(turn: Turn, request: TurnRequest): Promise<AcceptedTurn> {
    if (turn.joined >= MAX_JOINED_MESSAGES) throw new BackplaneError("session.busy");
    const prepared = this.#prepare(request);
    const ids = await turn.join(writeMessage(this.#deps, turn, prepared, request.once));
    prepared.publish();
    return { entry_id: ids.last_id, event_id: prepared.event_id, run_id: turn.run.id, turn };
  }

  /** Prepares a message that is written with the run of a harness and does not begin a turn. */
  prepareMessage(key: SessionKey, message: UserMessage | null): PreparedMessage {
    return this.#prepare({ key, message });
  }

  #prepare(request: Pick<TurnRequest, "key" | "message" | "event">): PreparedMessage {
    return prepareMessage(this.#deps.port, request, (event_id) => this.#published.add(event_id));
  }

  async #runToEnd(map_key: string, slot: SessionSlot, turn: Turn): Promise<void> {
    const { persister, clock, log, changes, turns } = this.#deps;
    turns.add(turn);
    changes.emit("turn.started", {});
    const run = await runTurn(this.#deps, turn);
    persister.release(turn.key, turn.hold, run === null ? "lost" : "ended");
    this.#slots.delete(map_key);
    turns.remove(turn);
    // The session is released one tick later, so that events just published still resolve to the tape of this
    // workspace.
    clock.after(0, () => slot.release());
    turn.release();
    if (run === null) log.warn({ run_id: turn.run.id }, "another gateway has taken over this turn");
    turn.end(run ?? (await this.#waitForOtherGateway(turn)));
  }

  /**
   * Waits for the end of a turn that another gateway holds and returns its final record. Returns the last known record
   * if this gateway stops first.
   */
  async #waitForOtherGateway({ key, run: row }: Turn): Promise<Run> {
    const { node_id: _node, fence: _fence, joins: _joins, subagent: _subagent, ...last_known } = row;
    for (;;) {
      const run = await this.#deps.store.runs.get(key.scope, row.id).catch(() => null);
      if (this.#stopping || (run !== null && run.status !== "running")) return run ?? last_known;
      await new Promise<void>((resolve) => void this.#deps.clock.after(OTHER_GATEWAY_POLL_MS, resolve));
    }
  }

  #reportError(key: SessionKey, activity: string, error: unknown): void {
    const { message, code } = toBackplaneError(error);
    this.#deps.log.warn({ err: error, session_id: key.session_id }, activity);
    const to = { session_id: key.session_id, scope: key.scope };
    this.#deps.port.tryPublish("kernel.error", { source: "kernel-loop", message, detail: { code } }, to);
  }
}

/**
 * Returns the run that holds the session on any gateway, when that run is the reason why a turn could not
 * begin.
 */
function blockingRunOf(error: unknown): string | null {
  if (codeOf(error) !== "session.busy") return null;
  const { run_id } = toBackplaneError(error).details ?? {};
  return typeof run_id === "string" ? run_id : null;
}

/** `advice` is added if a turn holds the session. Other work cannot be interrupted. */
function busyHereError({ is_exclusive }: SessionSlot, advice = ""): BackplaneError {
  const message = is_exclusive
    ? "The session is being reset, compacted or handed off."
    : `A turn of this session is running${advice}.`;
  return new BackplaneError("session.busy", message, { details: { retry_after_ms: 1_000 } });
}

function busyOnOtherGatewayError(run_id: string): BackplaneError {
  return new BackplaneError("session.busy", "A turn of this session is running on another gateway.", {
    details: { run_id, retry_after_ms: 1_000 },
  });
}
