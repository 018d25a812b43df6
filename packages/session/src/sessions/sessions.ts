/**
 * Sessions, their chains and what can be done to them. Nothing is ever rewritten: reset and compaction begin a
 * new chain and move the head, undo moves it back, and entry ids rise through all of it (tape.ids). The caller
 * has been authenticated and its session id checked; here every act is inside one scope.
 */

import {
  BackplaneError,
  type Chain,
  type ChatMessage,
  codeOf,
  type Entry,
  type IdSource,
  type JsonObject,
  type SemanticEventType,
  type Session,
} from "@backplane/contract";
import type {
  Appended,
  Clock,
  Facts,
  NewChain,
  NewEntry,
  NewEvent,
  OnceKey,
  Page,
  PageOf,
  RunHold,
  Scope,
  SessionKey,
  Store,
  TapeWrite,
} from "@backplane/ports";
import { contextOf } from "./context.ts";
import { tapeName } from "./tape-name.ts";

export interface SessionDeps {
  store: Pick<Store, "sessions">;
  clock: Pick<Clock, "now">;
  ids: IdSource;
}

/** What a compaction leaves out, and what it puts in its place. */
export interface Compaction {
  summary: string;
  /** The head as it was summarised: when it has grown since, nothing happens. */
  source: { chain_id: string; last_entry_id: number };
  tokens_before?: number;
  tokens_after?: number;
  /** Follows the anchor: recent entries that stay in the context. */
  seed?: readonly NewEntry[];
}

export interface Hydrated {
  readonly session: Session;
  readonly entries: Entry[];
  /** Made when it is read: a turn feeds the entries to a view of its own. */
  readonly messages: ChatMessage[];
}

class HydratedTape implements Hydrated {
  readonly session: Session;
  readonly entries: Entry[];

  constructor(session: Session, entries: Entry[]) {
    this.session = session;
    this.entries = entries;
  }

  get messages(): ChatMessage[] {
    return contextOf(this.entries);
  }
}

export interface Sessions {
  create(key: SessionKey, metadata?: JsonObject, once?: OnceKey): Promise<Session>;
  /** The session that is there, or a new one. */
  open(key: SessionKey): Promise<Session>;
  get(key: SessionKey): Promise<Session>;
  list(scope: Scope, filter: { workspace?: string }, page: Page): Promise<PageOf<Session>>;
  chain(scope: Scope, id: string): Promise<Chain>;
  chains(key: SessionKey, page: Page): Promise<PageOf<Chain>>;
  append(key: SessionKey, entries: readonly NewEntry[], chain_id?: string, once?: OnceKey): Promise<Appended>;
  /** As it came from the persister: on the head, under the hold of the turn that runs here. */
  appendTape(tape: TapeWrite, once?: OnceKey): Promise<Appended>;
  entries(scope: Scope, chain_id: string, after_id: number, limit: number): Promise<Entry[]>;
  hydrate(key: SessionKey): Promise<Hydrated>;
  /** A child session in the parent's workspace, or without `child_id` a second chain of the same session. */
  fork(
    scope: Scope,
    chain_id: string,
    options?: { child_id?: string; at?: number },
    once?: OnceKey,
  ): Promise<Chain>;
  reset(key: SessionKey): Promise<Chain>;
  /** `hold`: of the turn that makes room for itself. */
  compact(key: SessionKey, compaction: Compaction, hold?: RunHold): Promise<Chain>;
  /** Back to the chain before the compaction; what was written since stays on the chain that is left. */
  undo(key: SessionKey, actor: string): Promise<Chain>;
  verify(scope: Scope, chain_id: string): Promise<{ chain_id: string; entry_id: number } | null>;
}

export function createSessions({ store, clock, ids }: SessionDeps): Sessions {
  const { sessions } = store;
  const newChain = (): NewChain => ({
    id: ids.next("chain"),
    created_at: new Date(clock.now()).toISOString(),
  });
  const event = (
    type: SemanticEventType,
    scope: Scope,
    subject: NewEvent["subject"],
    summary: JsonObject,
  ): NewEvent => ({ id: ids.next("event"), type, scope, occurred_at: clock.now(), subject, summary });
  const chainEvent = (type: SemanticEventType, key: SessionKey, chain_id: string, summary: JsonObject = {}) =>
    event(type, key.scope, { kind: "chain", id: chain_id }, { session_id: key.session_id, ...summary });
  const sessionEvent = (type: SemanticEventType, key: SessionKey, chain_id: string) =>
    event(type, key.scope, { kind: "session", id: key.session_id }, { workspace: key.workspace, chain_id });

  const service: Sessions = {
    create(key, metadata = {}, once) {
      const chain = newChain();
      const facts: Facts = {
        events: [sessionEvent("session.created", key, chain.id), chainEvent("chain.created", key, chain.id)],
      };
      const session = { key, name: tapeName(key.workspace, key.session_id), metadata };
      return sessions.create(session, chain, [startAnchor(chain)], facts, once);
    },
    async open(key) {
      const there = await sessions.get(key);
      if (there !== null) return there;
      try {
        return await service.create(key);
      } catch (error) {
        if (codeOf(error) !== "session.conflict") throw error;
        return await service.get(key);
      }
    },
    async get(key) {
      const session = await sessions.get(key);
      if (session === null) {
        throw new BackplaneError("session.not_found", `There is no session ${key.session_id}.`);
      }
      return session;
    },
    list: (scope, filter, page) => sessions.list(scope, filter, page),
    async chain(scope, id) {
      const chain = await sessions.chain(scope, id);
      if (chain === null) throw new BackplaneError("chain.not_found", `There is no chain ${id}.`);
      return chain;
    },
    chains: (key, page) => sessions.chains(key, page),
    append: (key, entries, chain_id, once) => sessions.append(key, entries, chain_id, once),
    appendTape: (tape, once) => sessions.appendTape(tape, once),
    entries: (scope, chain_id, after_id, limit) => sessions.entries(scope, chain_id, after_id, limit),
    async hydrate(key) {
      const session = await service.get(key);
      const entries = await sessions.sinceAnchor(key.scope, session.head_chain_id);
      return new HydratedTape(session, entries);
    },
    async fork(scope, chain_id, { child_id, at } = {}, once) {
      const source = await service.chain(scope, chain_id);
      const key = keyOf(source, child_id ?? source.session_id);
      const chain = newChain();
      const lineage = { parent_chain_id: chain_id, parent_session_id: source.session_id };
      const events = [chainEvent("chain.forked", key, chain.id, lineage)];
      const name = tapeName(key.workspace, key.session_id);
      const into = child_id === undefined ? null : { key, name, metadata: {} };
      if (into !== null) events.unshift(sessionEvent("session.created", key, chain.id));
      const from = { scope, chain_id, ...(at === undefined ? {} : { at }) };
      return sessions.fork(from, chain, into, { events }, once);
    },
    async reset(key) {
      const { head_chain_id } = await service.get(key);
      const chain = newChain();
      const facts: Facts = {
        events: [
          sessionEvent("session.archived", key, head_chain_id),
          chainEvent("chain.created", key, chain.id),
        ],
      };
      return changed(await sessions.reset(key, head_chain_id, chain, [startAnchor(chain)], facts));
    },
    async compact(key, { summary, source, tokens_before, tokens_after, seed = [] }, hold) {
      const chain = newChain();
      const state: JsonObject = {
        kind: "compaction",
        summary,
        source: { chain_id: source.chain_id, last_entry_id: source.last_entry_id },
        ...(tokens_before === undefined ? {} : { tokens_before }),
        ...(tokens_after === undefined ? {} : { tokens_after }),
      };
      const first = [anchor("session/compaction", state, chain.created_at), ...seed];
      const lineage = { parent_chain_id: source.chain_id };
      const facts: Facts = { events: [chainEvent("chain.compacted", key, chain.id, lineage)] };
      return changed(await sessions.compact(key, source, chain, first, facts, hold));
    },
    async undo(key, actor) {
      const { head_chain_id } = await service.get(key);
      const head = await service.chain(key.scope, head_chain_id);
      if (head.origin !== "compaction" || head.parent_chain_id === null) {
        throw new BackplaneError("request.invalid", "The session's head is not a compaction.", {
          fix: "Only a compaction can be undone.",
        });
      }
      const audit = {
        id: ids.next("audit"),
        at: clock.now(),
        scope: key.scope,
        actor,
        action: "compaction.undo",
        subject: key.session_id,
        details: { from: head.id, to: head.parent_chain_id },
      };
      const moved = await sessions.moveHead(key, head.id, head.parent_chain_id, { audit });
      changed(moved ? true : null);
      return await service.chain(key.scope, head.parent_chain_id);
    },
    verify: (scope, chain_id) => sessions.verify(scope, chain_id),
  };
  return service;
}

function startAnchor(chain: NewChain): NewEntry {
  return anchor("session/start", {}, chain.created_at);
}

function anchor(name: string, state: JsonObject, date: string): NewEntry {
  return { kind: "anchor", payload: { name, state }, meta: { source: "kernel" }, date };
}

/** A child lives where its parent does, whoever forks it. */
function keyOf(chain: Chain, session_id: string): SessionKey {
  const { org_id, project_id, workspace } = chain;
  return { scope: { org_id, project_id }, workspace, session_id };
}

function changed<T>(value: T | null): T {
  if (value === null) throw new BackplaneError("chain.changed");
  return value;
}
