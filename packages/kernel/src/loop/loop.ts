/**
 * The agent loop. A session has one turn at a time; a message that comes meanwhile is on the tape at once and joins
 * at the next step. A turn begins with its row and the user's message in one transaction and ends with its row and
 * the answer in another, so that what was acknowledged is there after any crash.
 */
import {
  AGENT_SEPARATOR,
  BackplaneError,
  type BusEvent,
  IdTable,
  isId,
  toBackplaneError,
} from "@backplane/contract";
import type { Accepted } from "../facade-agent.ts";
import { callerOf } from "../keys/authenticate.ts";
import type { Caller, Logger, RunRow, Scope, SessionKey } from "../ports/index.ts";
import type { LiveSessions } from "../sessions/live-sessions.ts";
import { sessionName } from "../sessions/session-name.ts";
import { beginTurn, type TurnRequest } from "./begin-turn.ts";
import { type CarryDeps, carryTurn } from "./carry-turn.ts";
import { mayJoin } from "./may-join.ts";
import { endOrphan, keyOf, resumeTurn } from "./resume.ts";
import type { StopReason, Turn } from "./turn.ts";
import { messageOf, type SaidMessage, sayMessage, writeMessage } from "./user-message.ts";

export interface Begun extends Accepted {
  turn: Turn;
}

export interface LoopDeps extends CarryDeps {
  live: LiveSessions;
  log: Logger;
  /** Told of every turn that runs. */
  turnStarted: () => void;
}

interface Place {
  /** null: something else than a turn has the session for itself. */
  turn: Promise<Turn | null>;
  leave(): void;
  /** Set while the turn runs. */
  running: Turn | null;
}

const MAX_STEERED = 100;

export class Loop {
  readonly #deps: LoopDeps;
  readonly #places = new IdTable<Place>();
  readonly #seen = new Set<string>();
  /** Turns of earlier gateways wait for it. */
  readonly #ready = Promise.withResolvers<void>();
  #stopping = false;

  constructor(deps: LoopDeps) {
    this.#deps = deps;
    const { port } = deps;
    port.subscribe("user.message.received", (event) => this.#heard(event));
    port.subscribe("user.interrupt", (event) => {
      this.interrupt(deps.live.keyOf(event, event.session_id), "user");
    });
  }

  /** Resolves when the message is on disk and its turn has begun, or when it has joined the one that runs. */
  async accept(request: TurnRequest): Promise<Begun> {
    if (this.#stopping) throw new BackplaneError("gateway_stopping");
    const name = sessionName(request.key);
    const place = this.#places.get(name);
    if (place !== undefined) {
      if (request.trigger !== "message") {
        throw new BackplaneError("session.busy", "a turn of this session is running", {
          details: { retry_after_ms: 1_000 },
        });
      }
      const turn = await place.turn.catch(() => null);
      if (turn !== null && !turn.closing && mayJoin(turn.caller, request.caller))
        return await this.#join(turn, request);
      await turn?.settled;
      return await this.accept(request);
    }
    const leave = this.#deps.live.enter(request.key);
    const begun = this.#begin(request);
    const opened: Place = { turn: begun.then(({ turn }) => turn), leave, running: null };
    // Whoever waits for it hears of a failure; nobody has to wait.
    opened.turn.catch(() => {});
    this.#places.add(name, opened);
    try {
      const { turn, ...ids } = await begun;
      opened.running = turn;
      void this.#carry(name, opened, turn);
      return { ...ids, turn };
    } catch (error) {
      this.#places.delete(name);
      leave();
      throw error;
    }
  }

  /**
   * A call whose turn is gone has ended: the conversation goes on where it was left, and with no more rights. Nobody
   * waits for a sub-agent whose parent is gone.
   */
  resume(key: SessionKey, actor: string): void {
    if (this.#stopping || this.#places.has(sessionName(key))) return;
    if (key.session_id.includes(AGENT_SEPARATOR)) return;
    this.#callerOf(key, actor)
      .then((caller) => caller && this.accept({ key, caller, message: null, trigger: "approval" }))
      .catch((error: unknown) => this.#complain(key, "a conversation could not go on", error));
  }

  async #callerOf({ scope }: SessionKey, actor: string): Promise<Caller | null> {
    if (!isId("invocation", actor)) return { actor, scope, role: "user", scopes: [], admin: false };
    const row = await this.#deps.store.invocations.get(scope, actor);
    return row === null ? null : callerOf(row);
  }

  /** False: no turn runs there. */
  interrupt(key: SessionKey, reason: StopReason): boolean {
    const place = this.#places.get(sessionName(key));
    // One that is just beginning is stopped as soon as it has begun.
    if (place === undefined) return false;
    if (place.running !== null) place.running.stop(reason);
    else place.turn.then((turn) => turn?.stop(reason)).catch(() => {});
    return true;
  }

  /** Work that moves the head: no turn begins before it is done. Throws session.busy while one runs. */
  async alone<T>(key: SessionKey, work: () => Promise<T>): Promise<T> {
    const name = sessionName(key);
    if (this.#places.has(name)) {
      throw new BackplaneError("session.busy", "a turn of this session is running; interrupt it first", {
        details: { retry_after_ms: 1_000 },
      });
    }
    const leave = this.#deps.live.enter(key);
    const { promise: turn, resolve } = Promise.withResolvers<null>();
    this.#places.add(name, { turn, leave, running: null });
    try {
      return await work();
    } finally {
      this.#places.delete(name);
      leave();
      resolve(null);
    }
  }

  turnAt(scope: Scope, session_id: string): Turn | undefined {
    return this.#places.get(sessionName(this.#deps.live.keyOf(scope, session_id)))?.running ?? undefined;
  }

  /** Whether a turn runs there, or is about to. */
  busy(key: SessionKey): boolean {
    return this.#places.get(sessionName(key)) !== undefined;
  }

  /** The running turn of this run. */
  turnOf(run_id: string): Turn | undefined {
    for (const { running } of this.#places.values()) if (running?.run.id === run_id) return running;
    return undefined;
  }

  /** All that run on this node. */
  turns(): Turn[] {
    return this.#places.values().flatMap(({ running }) => running ?? []);
  }

  get running(): number {
    return this.#places.size;
  }

  /** Ends every turn; what they were doing is on the record. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#ready.resolve();
    const turns = this.#places.values().map(({ turn }) => turn.catch(() => null));
    const all = (await Promise.all(turns)).filter((turn) => turn !== null);
    for (const turn of all) turn.stop("shutdown");
    await Promise.all(all.map((turn) => turn.settled));
  }

  /** Everything is there that turns need. */
  goOn(): void {
    this.#ready.resolve();
  }

  /** Turns of gateways that died: each has its session at once, and goes on, or ends, when the loop is ready. */
  async recover(limit = 1_000): Promise<number> {
    const { store, node_id, clock, log } = this.#deps;
    for (let taken = 0; ; ) {
      if (this.#stopping) return taken;
      const orphans = await store.runs.claimOrphans(node_id, clock.now(), limit);
      for (const run of orphans) this.#takeUp(run);
      taken += orphans.length;
      if (orphans.length === limit) continue;
      if (taken > 0) log.info({ runs: taken }, "took up the turns of an earlier gateway");
      return taken;
    }
  }

  #takeUp(run: RunRow): void {
    const key = keyOf(run);
    const name = sessionName(key);
    if (this.#places.has(name)) {
      const busy = new BackplaneError("session.busy", "another turn of its session has begun since");
      void this.#endOrphan(run, busy);
      return;
    }
    let leave = () => {};
    const place: Place = { turn: Promise.resolve(null), leave: () => leave(), running: null };
    const begin = async (): Promise<Turn | null> => {
      await this.#ready.promise;
      // Whoever starts next finds it as it is.
      if (this.#stopping) return null;
      leave = this.#deps.live.enter(key);
      return await resumeTurn(this.#deps, run);
    };
    place.turn = begin()
      .catch(async (error: unknown) => {
        await this.#endOrphan(run, toBackplaneError(error));
        return null;
      })
      .then((turn) => {
        place.running = turn;
        if (turn !== null) void this.#carry(name, place, turn);
        else {
          this.#places.delete(name);
          leave();
        }
        return turn;
      });
    this.#places.add(name, place);
  }

  async #endOrphan(run: RunRow, failure: BackplaneError): Promise<void> {
    try {
      await endOrphan(this.#deps, run, failure);
    } catch (error) {
      this.#deps.log.error({ err: error, run_id: run.id }, "a turn of an earlier gateway could not be ended");
    }
  }

  /** A message that an adapter plugin published by itself. */
  async #heard(event: BusEvent<"user.message.received">): Promise<void> {
    if (this.#seen.delete(event.id)) return;
    const { org_id, project_id, session_id, payload, source } = event;
    const key = this.#deps.live.keyOf({ org_id, project_id }, session_id);
    const caller: Caller = {
      actor: `plugin:${source}`,
      scope: key.scope,
      role: "user",
      scopes: [],
      admin: false,
    };
    // Not awaited: the session's worker is never held by a turn (bus.fifo).
    void this.accept({ key, caller, message: messageOf(payload), trigger: "message", event }).catch(
      (error: unknown) => this.#complain(key, "a message could not be taken", error),
    );
  }

  async #begin(request: TurnRequest): Promise<Begun> {
    const said = this.#say(request);
    const { once } = request;
    const keyed =
      once === undefined ? request : { ...request, once: { ...once, answer: { event_id: said.event_id } } };
    const { turn, entry_id } = await beginTurn(this.#deps, keyed, said.items);
    said.publish();
    return { entry_id, event_id: said.event_id, run_id: turn.run.id, turn };
  }

  async #join(turn: Turn, request: TurnRequest): Promise<Begun> {
    if (turn.joined >= MAX_STEERED) throw new BackplaneError("session.busy");
    const said = this.#say(request);
    const ids = await turn.join(writeMessage(this.#deps, turn, said, request.once));
    said.publish();
    return { entry_id: ids.last_id, event_id: said.event_id, run_id: turn.run.id, turn };
  }

  #say(request: TurnRequest): SaidMessage {
    return sayMessage(this.#deps.port, request, (event_id) => this.#seen.add(event_id));
  }

  async #carry(name: string, place: Place, turn: Turn): Promise<void> {
    this.#deps.turnStarted();
    const run = await carryTurn(this.#deps, turn);
    this.#places.delete(name);
    // A moment later: what was just told belongs to this workspace's tape.
    this.#deps.clock.after(0, () => place.leave());
    turn.end(run);
  }

  #complain(key: SessionKey, what: string, error: unknown): void {
    const { message, code } = toBackplaneError(error);
    this.#deps.log.warn({ err: error, session_id: key.session_id }, what);
    const to = { session_id: key.session_id, scope: key.scope };
    this.#deps.port.tryPublish("kernel.error", { source: "kernel-loop", message, detail: { code } }, to);
  }
}
