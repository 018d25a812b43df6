/** The agent host's half of the kernel's facade: sessions, runs, watchers, plugins, providers and adapters. */
import type {
  AdapterAnswer,
  AdapterRoute,
  Block,
  BusEvent,
  CatalogEntry,
  Chain,
  EffectClass,
  Entry,
  Json,
  JsonObject,
  MaybePromise,
  Origin,
  PluginEntry,
  PluginHealth,
  PluginRow,
  ProviderRow,
  ProviderTested,
  Risk,
  RiskContext,
  Run,
  Session,
} from "@backplane/contract";
import type { Caller, Page, PageOf } from "../scope/scope.ts";
import type { OnceKey } from "../store/access-store.ts";
import type { SessionKey } from "../store/session-store.ts";

/** Which session: its id, in this workspace of the caller's project. */
export interface SessionRef {
  session_id: string;
  /** Default `default`. */
  workspace?: string;
}

export interface UserMessage {
  text: string;
  attachments?: JsonObject[];
}

/** Both are on disk when this is answered. */
export interface Accepted {
  entry_id: number;
  event_id: string;
  run_id: string;
}

export interface RunTicket {
  run: Run;
  /** The message that asked for it, on the tape. */
  entry_id: number;
  /** Resolves with the ended run; never rejects. */
  settled: Promise<Run>;
}

/** `once` is a key of `idempotency.open`: it is taken in the transaction that does the work. */
export interface AgentSessions {
  create(
    caller: Caller,
    body: Partial<SessionRef> & { metadata?: JsonObject; strategy?: string },
    once?: OnceKey,
  ): Promise<Session>;
  get(caller: Caller, ref: SessionRef): Promise<Session>;
  list(caller: Caller, filter: { workspace?: string }, page: Page): Promise<PageOf<Session>>;
  /** Merged; null removes a key. */
  patch(caller: Caller, ref: SessionRef, metadata: JsonObject): Promise<Session>;
  /** A child session that shows the parent's entries up to `at`. */
  fork(
    caller: Caller,
    ref: SessionRef,
    options: { child_id?: string; at?: number },
    once?: OnceKey,
  ): Promise<Session>;
  reset(caller: Caller, ref: SessionRef): Promise<Session>;
  entries(caller: Caller, ref: SessionRef, after_id: number, limit: number): Promise<Entry[]>;
  /** Makes the session when it is not there. During a turn the message joins it at the next step. */
  message(caller: Caller, ref: SessionRef, message: UserMessage, once?: OnceKey): Promise<Accepted>;
  /** Ends the turn; false when none runs. */
  interrupt(caller: Caller, ref: SessionRef): Promise<boolean>;
  compact(caller: Caller, ref: SessionRef): Promise<Chain>;
  undoCompaction(caller: Caller, ref: SessionRef): Promise<Chain>;
}

export interface AgentChains {
  /** A second chain of the session: empty, or forked from another. */
  create(
    caller: Caller,
    body: SessionRef & { from_chain_id?: string; at?: number },
    once?: OnceKey,
  ): Promise<Chain>;
  get(caller: Caller, id: string): Promise<Chain>;
  list(caller: Caller, ref: SessionRef, page: Page): Promise<PageOf<Chain>>;
  fork(
    caller: Caller,
    id: string,
    options: { at?: number; child_id?: string },
    once?: OnceKey,
  ): Promise<Chain>;
  blocks(caller: Caller, id: string, after_id: number, limit: number): Promise<Block[]>;
  addBlocks(caller: Caller, id: string, blocks: Block[], once?: OnceKey): Promise<Block[]>;
  verify(caller: Caller, id: string): Promise<{ chain_id: string; entry_id: number } | null>;
}

export interface AgentRuns {
  /** On the head of the session, or on `chain_id` when it is the head. */
  start(
    caller: Caller,
    body: (SessionRef | { chain_id: string }) & {
      input: UserMessage;
      strategy?: string;
      /** Whose tolerance of risk counts; default background. */
      context?: RiskContext;
    },
  ): Promise<RunTicket>;
  /** Under an Idempotency-Key that the run itself takes, as `invocations.invokeOnce`. A repeat gets no ticket. */
  startOnce(
    caller: Caller,
    body: Parameters<AgentRuns["start"]>[1],
    key: string,
    digest: string,
  ): Promise<{ id: string; entry_id: number; ticket: RunTicket | null }>;
  get(caller: Caller, id: string): Promise<Run>;
  list(
    caller: Caller,
    filter: { session_id?: string; chain_id?: string; workspace?: string },
    page: Page,
  ): Promise<PageOf<Run>>;
  /** Throws `run.ended`. */
  cancel(caller: Caller, id: string): Promise<Run>;
}

/** What a watcher is sent. `frame` is the JSON text of the whole op, spelled once for all watchers. */
export interface Watched {
  event: BusEvent;
  /** The entry that the event is on the tape, if it is one. */
  entry_id: number | null;
  frame: string;
}

export interface Attachment {
  readonly connection_id: string;
  readonly session: Session;
  heartbeat(): void;
  detach(reason?: "client_close" | "send_failed" | "shutdown"): void;
}

export interface Fanout {
  /**
   * Replays what comes after `since_entry` (null: nothing), says `session.replay.done`, then goes on live; each
   * entry once and in order. `send` answers how many bytes wait at the client; too many end the connection. It may be
   * called before the attachment is answered.
   */
  attach(
    caller: Caller,
    ref: SessionRef,
    options: {
      since_entry: number | null;
      adapter_id: string;
      /** The connection that this one takes the place of, where it is the same caller's and still there. */
      replaces?: string;
      send(watched: Watched): number;
      /** Awaited in a replay while much waits at the client; resolves also when the client is gone. */
      drained?(): Promise<void>;
      /** The kernel ended it: timeout, shutdown or a client that is too slow. */
      ended(reason: "timeout" | "shutdown" | "send_failed"): void;
    },
  ): Promise<Attachment>;
  /** Whether a client watches this session now. */
  watches(key: SessionKey): boolean;
  stats(): { sessions: number; connections: number };
}

/** One tool of the catalog, as a client outside of the loop is shown it. */
export interface CatalogTool {
  name: string;
  title: string | null;
  description: string;
  input_schema: JsonObject;
  output_schema: JsonObject | null;
  effect_class: EffectClass;
  requires_approval: boolean;
  /** Before its arguments are known. */
  risk: Risk;
  origin: Origin;
  /** The package that has the name. */
  package_id: string;
  /** Of a tool of a kernel plugin; null where rollout decides at the call. */
  binding_id: string | null;
}

export interface Catalog {
  /** By name. The same array as long as nothing has changed on this node. */
  list(caller: Caller): Promise<readonly CatalogTool[]>;
  /** Null: there is no such tool for this caller. */
  find(caller: Caller, name: string): MaybePromise<CatalogTool | null>;
  /** By name. With `all` also what this caller is not offered, and why. */
  entries(caller: Caller, how: { all: boolean }): Promise<readonly CatalogEntry[]>;
  /** All that goes by this name, the one that has it first. Throws tool.not_found. */
  get(caller: Caller, name: string): Promise<readonly CatalogEntry[]>;
  /** After a change on this node, of one org or, with null, of all. Answers how to stop. */
  onChanged(listener: (org_id: string | null) => void): () => void;
}

export interface AgentPlugins {
  list(caller: Caller): Promise<PluginRow[]>;
  inspect(caller: Caller, source: string): Promise<PluginEntry[]>;
  /** Hot: loads or unloads at once. */
  setEnabled(caller: Caller, name: string, enabled: boolean): Promise<PluginRow>;
  /** Admin only: runs inline from now on. */
  setTrusted(caller: Caller, name: string, trusted: boolean): Promise<PluginRow>;
  install(caller: Caller, source: string, options: { editable: boolean }): Promise<PluginRow[]>;
  remove(caller: Caller, name: string): Promise<void>;
  reload(caller: Caller, name: string): Promise<PluginRow>;
  health(caller: Caller, timeout_ms: number): Promise<PluginHealth[]>;
}

export interface AgentProviders {
  list(caller: Caller, options: { show: boolean }): Promise<ProviderRow[]>;
  create(
    caller: Caller,
    body: { id?: string; plugin: string; label?: string; config?: JsonObject },
  ): Promise<ProviderRow>;
  patch(caller: Caller, id: string, body: { label?: string; config?: JsonObject }): Promise<ProviderRow>;
  remove(caller: Caller, id: string): Promise<void>;
  setActive(caller: Caller, id: string): Promise<void>;
  test(caller: Caller, id: string): Promise<ProviderTested>;
}

export interface AdapterMount extends AdapterRoute {
  plugin: string;
  /** With `/x/<plugin>` in front where it has to be. */
  mounted: string;
}

export interface Adapters {
  /** Changes when a plugin comes or goes. */
  list(): readonly AdapterMount[];
  find(method: string, path: string): { mount: AdapterMount; params: Record<string, string> } | null;
  handle(
    caller: Caller,
    mount: AdapterMount,
    request: { params: Record<string, string>; query: Record<string, string>; body: Json },
  ): Promise<AdapterAnswer>;
}
