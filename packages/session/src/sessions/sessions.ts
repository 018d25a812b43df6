/**
 * Operations on sessions and their chains. Entries are never rewritten: reset and compaction begin a new chain and move
 * the head, undo moves the head back, and entry ids keep rising across all chains of a session (tape.ids). Callers have
 * authenticated the request and checked the session id; every operation is confined to one scope.
 */

import { createHash } from "node:crypto";
import {
  BackplaneError,
  type BusPayload,
  type Chain,
  type ChatMessage,
  codeOf,
  type Entry,
  eventText,
  type IdSource,
  type JsonObject,
  type SemanticEventType,
  type Session,
} from "@backplane/contract";
import type {
  AppendedEntries,
  ChangeCause,
  ChangeRecords,
  Clock,
  IdempotencyClaim,
  NewChain,
  NewEntry,
  NewEvent,
  Page,
  PageOf,
  RunHold,
  Scope,
  SessionKey,
  Store,
  TapeWrite,
} from "@backplane/ports";
import { contextOf } from "./context.ts";

export interface SessionDeps {
  store: Pick<Store, "sessions">;
  clock: Pick<Clock, "now">;
  ids: IdSource;
  /**
   * Publishes the lifecycle events of sessions. The operations that cause them call it, so that no caller of an
   * operation can forget its event; each event follows the write that it announces.
   */
  publish?: <K extends SessionLifecycleKind>(kind: K, scope: Scope, payload: BusPayload<K>) => void;
}

type SessionLifecycleKind =
  | "session.started"
  | "session.forked"
  | "session.handoff"
  | "session.archived"
  | "session.reset";

/** A session after a reset. `archive_path` identifies the previous head; null if no archive was requested. */
interface ResetSession {
  chain: Chain;
  archive_path: string | null;
}

/** The summarized part of a session and its replacement. */
export interface ChainCompaction {
  summary: string;
  /** The head that was summarized; the compaction fails with chain.changed if the head has moved or grown since. */
  source: { chain_id: string; last_entry_id: number };
  tokens_before?: number;
  tokens_after?: number;
  /** Recent entries that stay in the context; they follow the anchor. */
  seed?: readonly NewEntry[];
  /** Details for people: who compacted the session and what was lost. */
  record?: JsonObject;
}

interface CompactOptions {
  /** The hold of the turn that compacts its own session. */
  hold?: RunHold | undefined;
  /** The harness execution that the compaction counts towards. */
  execution_id?: string | undefined;
  cause?: ChangeCause;
}

export interface HydratedSession {
  readonly session: Session;
  readonly entries: Entry[];
  /** Built on access, because a turn builds its own context from the entries. */
  readonly messages: ChatMessage[];
}

class HydratedTape implements HydratedSession {
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
  /** `cause`, here and below, is passed on to the events of the change. */
  create(
    key: SessionKey,
    metadata?: JsonObject,
    once?: IdempotencyClaim,
    cause?: ChangeCause,
  ): Promise<Session>;
  /** Returns the existing session or creates it. */
  open(key: SessionKey, cause?: ChangeCause): Promise<Session>;
  get(key: SessionKey): Promise<Session>;
  list(scope: Scope, filter: { workspace?: string }, page: Page): Promise<PageOf<Session>>;
  getChain(scope: Scope, id: string): Promise<Chain>;
  listChains(key: SessionKey, page: Page): Promise<PageOf<Chain>>;
  append(
    key: SessionKey,
    entries: readonly NewEntry[],
    chain_id?: string,
    once?: IdempotencyClaim,
  ): Promise<AppendedEntries>;
  /** Appends a write of the persister to the head, under the hold of the turn that runs on this node. */
  appendTape(tape: TapeWrite, once?: IdempotencyClaim): Promise<AppendedEntries>;
  readEntries(scope: Scope, chain_id: string, after_id: number, limit: number): Promise<Entry[]>;
  /** The last anchor of the chain and the entries after it. */
  readSinceAnchor(scope: Scope, chain_id: string): Promise<Entry[]>;
  hydrate(key: SessionKey): Promise<HydratedSession>;
  /** Creates a child session in the parent's workspace or, without `child_id`, another chain of the same session. */
  fork(
    scope: Scope,
    chain_id: string,
    options?: { child_id?: string; at?: number },
    once?: IdempotencyClaim,
    cause?: ChangeCause,
  ): Promise<Chain>;
  /** Archives all chains of the session and begins a new one. Without `archive`, session.archived is not published. */
  reset(key: SessionKey, archive?: boolean, cause?: ChangeCause): Promise<ResetSession>;
  /** Appends an anchor; the model's context begins there. Throws session.busy while a turn runs. */
  handoff(key: SessionKey, name: string, state: JsonObject): Promise<Entry>;
  /** Begins a chain with the summary and the seed, and makes it the head of the session. */
  compact(key: SessionKey, compaction: ChainCompaction, options?: CompactOptions): Promise<Chain>;
  /** Moves the head back to the chain before the compaction; later entries stay on the compacted chain. */
  undo(key: SessionKey, actor: string): Promise<Chain>;
  /** Resolves to the first entry whose hash is wrong, or to null. */
  verify(scope: Scope, chain_id: string): Promise<{ chain_id: string; entry_id: number } | null>;
}

export function createSessions({ store, clock, ids, publish = () => {} }: SessionDeps): Sessions {
  const { sessions } = store;
  const newChain = (): NewChain => ({
    id: ids.next("chain"),
    created_at: new Date(clock.now()).toISOString(),
  });
  /** The events of one change have one trace. If no call caused the change, the trace begins here. */
  const createEventBuilders = (
    key: SessionKey,
    chain_id: string,
    { run_id, trace_id, from_hook }: ChangeCause,
  ) => {
    const { scope, workspace, session_id } = key;
    const shared = {
      scope,
      ids: {
        session_id,
        chain_id,
        ...(run_id === undefined ? {} : { run_id }),
        trace_id: trace_id ?? ids.next("trace"),
      },
      ...(from_hook === true ? { from_hook } : {}),
    };
    const event = (type: SemanticEventType, subject: NewEvent["subject"], summary: JsonObject): NewEvent => ({
      id: ids.next("event"),
      type,
      occurred_at: clock.now(),
      subject,
      summary,
      ...shared,
    });
    return {
      chain: (type: ChainEventType, summary: JsonObject = {}) =>
        event(
          type,
          { kind: "chain", id: chain_id },
          { session_id, ...buildTexts(type, session_id), ...summary },
        ),
      session: (type: SessionEventType, summary: JsonObject = {}) =>
        event(
          type,
          { kind: "session", id: session_id },
          { workspace, chain_id, ...buildTexts(type, session_id), ...summary },
        ),
    };
  };

  const service: Sessions = {
    async create(key, metadata = {}, once, cause = {}) {
      const chain = newChain();
      const events = createEventBuilders(key, chain.id, cause);
      const records: ChangeRecords = {
        events: [events.session("session.created"), events.chain("chain.created")],
      };
      const session = { key, name: tapeName(key.workspace, key.session_id), metadata };
      const created = await sessions.create(session, chain, [buildStartAnchor(chain)], records, once);
      publish("session.started", key.scope, buildStartedPayload(key));
      return created;
    },
    async open(key, cause) {
      const existing = await sessions.get(key);
      if (existing !== null) return existing;
      try {
        return await service.create(key, {}, undefined, cause);
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
    async getChain(scope, id) {
      const chain = await sessions.getChain(scope, id);
      if (chain === null) throw new BackplaneError("chain.not_found", `There is no chain ${id}.`);
      return chain;
    },
    listChains: (key, page) => sessions.listChains(key, page),
    append: (key, entries, chain_id, once) => sessions.append(key, entries, chain_id, once),
    appendTape: (tape, once) => sessions.appendTape(tape, once),
    readEntries: (scope, chain_id, after_id, limit) => sessions.listEntries(scope, chain_id, after_id, limit),
    readSinceAnchor: (scope, chain_id) => sessions.listSinceAnchor(scope, chain_id),
    async hydrate(key) {
      const session = await service.get(key);
      const entries = await sessions.listSinceAnchor(key.scope, session.head_chain_id);
      return new HydratedTape(session, entries);
    },
    async fork(scope, chain_id, { child_id, at } = {}, once, cause = {}) {
      const source = await service.getChain(scope, chain_id);
      const key = toSessionKey(source, child_id ?? source.session_id);
      const chain = newChain();
      const lineage = { parent_chain_id: chain_id, parent_session_id: source.session_id };
      const build = createEventBuilders(key, chain.id, cause);
      const events = [build.chain("chain.forked", lineage)];
      const name = tapeName(key.workspace, key.session_id);
      const into = child_id === undefined ? null : { key, name, metadata: {} };
      if (into !== null) events.unshift(build.session("session.created"));
      const from = { scope, chain_id, ...(at === undefined ? {} : { at }) };
      const forked = await sessions.fork(from, chain, into, { events }, once);
      if (into !== null) {
        publish("session.started", key.scope, buildStartedPayload(key));
        publish("session.forked", key.scope, { parent_id: source.session_id, child_id: key.session_id });
      }
      return forked;
    },
    async reset(key, archive = true, cause = {}) {
      const { head_chain_id } = await service.get(key);
      const { session_id, scope } = key;
      const chain = newChain();
      const build = createEventBuilders(key, chain.id, cause);
      const events = [build.chain("chain.created")];
      if (archive) {
        const output = `chain:${head_chain_id}`;
        const archived = build.session("session.archived", { chain_id: head_chain_id, output });
        events.unshift({ ...archived, ids: { ...archived.ids, chain_id: head_chain_id } });
      }
      const first = [buildStartAnchor(chain)];
      const new_chain = requireUnchanged(await sessions.reset(key, head_chain_id, chain, first, { events }));
      const archive_path = archive ? `chain:${head_chain_id}` : null;
      if (archive_path !== null) publish("session.archived", scope, { session_id, archive_path });
      publish("session.reset", scope, { session_id, archive_path });
      return { chain: new_chain, archive_path };
    },
    async handoff(key, name, state) {
      const entry = buildAnchor(name, state, new Date(clock.now()).toISOString());
      const { chain_id, last_id } = await sessions.appendIdle(key, [entry]);
      publish("session.handoff", key.scope, { session_id: key.session_id, name, state });
      const [written] = await sessions.listEntries(key.scope, chain_id, last_id - 1, 1);
      return written!;
    },
    async compact(
      key,
      { summary, source, tokens_before, tokens_after, seed = [], record = {} },
      { hold, execution_id, cause = {} } = {},
    ) {
      const chain = newChain();
      const state: JsonObject = {
        ...record,
        kind: "compaction",
        summary,
        source: { chain_id: source.chain_id, last_entry_id: source.last_entry_id },
        ...(tokens_before === undefined ? {} : { tokens_before }),
        ...(tokens_after === undefined ? {} : { tokens_after }),
      };
      const first = [buildAnchor("session/compaction", state, chain.created_at), ...seed];
      const content: JsonObject = { parent_chain_id: source.chain_id, output: eventText(summary) };
      if (tokens_before !== undefined) content.tokens_before = tokens_before;
      if (tokens_after !== undefined) content.tokens_after = tokens_after;
      const compacted = createEventBuilders(key, chain.id, cause).chain("chain.compacted", content);
      const records: ChangeRecords = { events: [compacted] };
      return requireUnchanged(
        await sessions.compact(key, source, chain, first, records, { hold, execution_id }),
      );
    },
    async undo(key, actor) {
      const { head_chain_id } = await service.get(key);
      const head = await service.getChain(key.scope, head_chain_id);
      if (head.origin !== "compaction" || head.parent_chain_id === null) {
        throw new BackplaneError(
          "request.invalid",
          "The session's head chain was not created by a compaction.",
          {
            fix: "Only the latest compaction of a session can be undone.",
          },
        );
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
      requireUnchanged(moved ? true : null);
      return await service.getChain(key.scope, head.parent_chain_id);
    },
    verify: (scope, chain_id) => sessions.verify(scope, chain_id),
  };
  return service;
}

function buildStartedPayload({ workspace, session_id }: SessionKey): BusPayload<"session.started"> {
  return { session_id, tape_name: tapeName(workspace, session_id), workspace };
}

type ChainEventType = "chain.created" | "chain.forked" | "chain.compacted";
type SessionEventType = "session.created" | "session.archived";

const TASKS: Record<ChainEventType | SessionEventType, string> = {
  "session.created": "Create session",
  "session.archived": "Archive session",
  "chain.created": "Start a chain of session",
  "chain.forked": "Fork session",
  "chain.compacted": "Compact session",
};

/** Every run, chain and session event has a task and an output, so that a notifier needs no case for each type. */
function buildTexts(type: ChainEventType | SessionEventType, session_id: string): JsonObject {
  return { task: `${TASKS[type]} ${session_id}`, output: "" };
}

function buildStartAnchor(chain: NewChain): NewEntry {
  return buildAnchor("session/start", {}, chain.created_at);
}

function buildAnchor(name: string, state: JsonObject, date: string): NewEntry {
  return { kind: "anchor", payload: { name, state }, meta: { source: "kernel" }, date };
}

/** A child session belongs to its parent's scope and workspace, whoever the caller is. */
function toSessionKey(chain: Chain, session_id: string): SessionKey {
  const { org_id, project_id, workspace } = chain;
  return { scope: { org_id, project_id }, workspace, session_id };
}

function requireUnchanged<T>(value: T | null): T {
  if (value === null) throw new BackplaneError("chain.changed");
  return value;
}

/**
 * The public name of a tape (tape.name). The store's key is the full pair, so two tapes whose names collide stay apart;
 * MD5 is not used for security here.
 */
export function tapeName(workspace: string, session_id: string): string {
  const short = (text: string) => createHash("md5").update(text).digest("hex").slice(0, 16);
  return `${short(workspace)}__${short(session_id)}`;
}
