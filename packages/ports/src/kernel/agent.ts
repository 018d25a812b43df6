/** The agent part of the kernel's facade: sessions, runs, watchers, plugins, providers and adapters. */
import type {
  AdapterResponse,
  AdapterRoute,
  Block,
  BusEvent,
  CatalogEntry,
  Chain,
  CompactedEntry,
  Compaction,
  EffectClass,
  Entry,
  Execution,
  HarnessPolicy,
  Json,
  JsonObject,
  MaybePromise,
  Origin,
  Pin,
  PluginEntry,
  PluginHealth,
  PluginView,
  ProviderTestResult,
  ProviderView,
  Risk,
  RiskContext,
  Run,
  Session,
} from "@backplane/contract";
import type { Operation } from "../host/operation.ts";
import type { Caller, Page, PageOf } from "../scope/scope.ts";
import type { IdempotencyClaim } from "../store/access-store.ts";
import type { SessionKey } from "../store/session-store.ts";

/** Identifies a session by id and workspace within the caller's project. */
export interface SessionRef {
  session_id: string;
  /** Defaults to `default`. */
  workspace?: string;
}

export interface UserMessage {
  text: string;
  attachments?: JsonObject[];
}

/** Returned after the entry and the run are on disk. */
export interface AcceptedMessage {
  entry_id: number;
  event_id: string;
  run_id: string;
}

export interface RunTicket {
  run: Run;
  /** The tape entry of the message that started the run. */
  entry_id: number;
  /** Resolves with the ended run; never rejects. */
  settled: Promise<Run>;
}

export interface CompactionOptions {
  /**
   * The compactor to call: a binding id, an export id or `package_id/export_id`; `model` for the built-in summary. No
   * other compactor is tried. By default the gateway chooses one.
   */
  compactor?: string;
  /** Prefers compactors for this context. Defaults to the session's metadata `target_context`, then to `general`. */
  target_context?: string;
  /** The size to aim for, in tokens; defaults to a share of the model's window. */
  max_input_tokens?: number;
  /** The model that will read the result; defaults to the active one. */
  target_model?: string;
  retain_system?: boolean;
  retain_open_tasks?: boolean;
}

/** `once` is a key of `idempotency.open`; the transaction that does the work claims it. */
export interface AgentSessions {
  create(
    caller: Caller,
    body: Partial<SessionRef> & { metadata?: JsonObject; strategy?: string },
    once?: IdempotencyClaim,
  ): Promise<Session>;
  get(caller: Caller, ref: SessionRef): Promise<Session>;
  list(caller: Caller, filter: { workspace?: string }, page: Page): Promise<PageOf<Session>>;
  /** Merges `metadata` into the stored metadata; null removes a key. */
  patch(caller: Caller, ref: SessionRef, metadata: JsonObject): Promise<Session>;
  /** Creates a child session that inherits the parent's entries up to `at`. */
  fork(
    caller: Caller,
    ref: SessionRef,
    options: { child_id?: string; at?: number },
    once?: IdempotencyClaim,
  ): Promise<Session>;
  /**
   * Closes the chain and starts an empty one. The closed chain is kept in any case; without `archive` it is not
   * announced as an archive and `archive_path` is null.
   */
  reset(
    caller: Caller,
    ref: SessionRef,
    options?: { archive?: boolean },
  ): Promise<Session & { archive_path: string | null }>;
  /**
   * Appends an anchor with this name and state. The model's context begins at the anchor, with `state.summary` as its
   * first message if that is a string. Throws session.busy while a turn runs.
   */
  handOff(caller: Caller, ref: SessionRef, anchor: { name: string; state: JsonObject }): Promise<Entry>;
  listEntries(caller: Caller, ref: SessionRef, after_id: number, limit: number): Promise<Entry[]>;
  /**
   * Creates the session if it does not exist. A message sent during a turn is added to the turn before its next step.
   */
  sendMessage(
    caller: Caller,
    ref: SessionRef,
    message: UserMessage,
    once?: IdempotencyClaim,
  ): Promise<AcceptedMessage>;
  /** Ends the running turn; resolves to false if no turn runs. */
  interrupt(caller: Caller, ref: SessionRef): Promise<boolean>;
  compact(caller: Caller, ref: SessionRef, options?: CompactionOptions): Promise<Chain>;
  undoCompaction(caller: Caller, ref: SessionRef): Promise<Chain>;
  /** The record of the compaction that created this chain. Throws `request.invalid` for another chain. */
  getCompaction(caller: Caller, chain_id: string): Promise<Compaction>;
  /** The outcome of that compaction for each entry of its source, in order. */
  listCompactedEntries(caller: Caller, chain_id: string): Promise<CompactedEntry[]>;
  listPins(caller: Caller, ref: SessionRef): Promise<Pin[]>;
  /** Pins an entry of the current chain; a repeat changes nothing. */
  pin(caller: Caller, ref: SessionRef, entry_id: number): Promise<Pin>;
  /** Accepts the id of a pinned entry or of a copy of it. Resolves to false if it is not pinned. */
  unpin(caller: Caller, ref: SessionRef, entry_id: number): Promise<boolean>;
}

export interface AgentChains {
  /** Creates another chain of the session, empty or forked from an existing chain. */
  create(
    caller: Caller,
    body: SessionRef & { from_chain_id?: string; at?: number },
    once?: IdempotencyClaim,
  ): Promise<Chain>;
  get(caller: Caller, id: string): Promise<Chain>;
  list(caller: Caller, ref: SessionRef, page: Page): Promise<PageOf<Chain>>;
  fork(
    caller: Caller,
    id: string,
    options: { at?: number; child_id?: string },
    once?: IdempotencyClaim,
  ): Promise<Chain>;
  /** The entry before the chain's last compaction; 0 if the chain has none. The view of the chain starts after it. */
  findViewStart(caller: Caller, id: string): Promise<number>;
  listBlocks(caller: Caller, id: string, after_id: number, limit: number): Promise<Block[]>;
  addBlocks(caller: Caller, id: string, blocks: Block[], once?: IdempotencyClaim): Promise<Block[]>;
  verify(caller: Caller, id: string): Promise<{ chain_id: string; entry_id: number } | null>;
}

/** The harness that a run executes, and its limits. */
export interface HarnessStart {
  binding_id?: string;
  package_id?: string;
  export_id?: string;
  /** Resumes this execution at its last checkpoint instead of starting a new one. */
  execution_id?: string;
  policy?: HarnessPolicy;
  timeout_ms?: number;
}

export interface AgentRuns {
  /** Starts a run on the head of the session; `chain_id` must be the head. */
  start(
    caller: Caller,
    body: (SessionRef | { chain_id: string }) & {
      input: UserMessage;
      strategy?: string;
      /** Selects the risk tolerance of the policy; defaults to background. */
      context?: RiskContext;
      /** Executes a harness instead of a turn of the loop. */
      harness?: HarnessStart;
    },
  ): Promise<RunTicket>;
  /**
   * Like `start`, under an Idempotency-Key that is claimed with the run, as in `invocations.invokeOnce`. A repeat gets
   * no ticket.
   */
  startOnce(
    caller: Caller,
    body: Parameters<AgentRuns["start"]>[1],
    key: string,
    digest: string,
  ): Promise<{ id: string; entry_id: number; ticket: RunTicket | null }>;
  get(caller: Caller, id: string): Promise<Run>;
  /** A delegated token sees only its own execution. */
  getExecution(caller: Caller, id: string): Promise<Execution>;
  list(
    caller: Caller,
    filter: { session_id?: string; chain_id?: string; workspace?: string },
    page: Page,
  ): Promise<PageOf<Run>>;
  /** Throws `run.ended`. */
  cancel(caller: Caller, id: string): Promise<Run>;
}

/** An event for watchers. `frame` is the JSON of the whole op, serialized once for all watchers. */
export interface WatchedEvent {
  event: BusEvent;
  /** The tape entry of the event; null for an event that is not recorded. */
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
   * Replays the entries after `since_entry` (null replays none), sends `session.replay.done`, then sends live events;
   * each entry is sent once and in order. `send` returns the number of bytes buffered for the client; a connection over
   * the limit is closed. `send` may be called before `attach` resolves.
   */
  attach(
    caller: Caller,
    ref: SessionRef,
    options: {
      since_entry: number | null;
      adapter_id: string;
      /** A connection of the same caller that this one replaces, if it is still attached. */
      replaces?: string;
      send(watched: WatchedEvent): number;
      /** Awaited during a replay while the client's buffer is full. Must also resolve if the client disconnects. */
      drained?(): Promise<void>;
      /** Called when the kernel ends the attachment: timeout, shutdown, or a client that reads too slowly. */
      ended(reason: "timeout" | "shutdown" | "send_failed"): void;
    },
  ): Promise<Attachment>;
  /** Whether a client is attached to this session. */
  watches(key: SessionKey): boolean;
  stats(): { sessions: number; connections: number };
  /** A connection without a heartbeat for this long is detached. */
  readonly heartbeat_ms: number;
}

/** A tool of the catalog, as shown to a client outside the agent loop. */
export interface CatalogTool {
  name: string;
  title: string | null;
  description: string;
  input_schema: JsonObject;
  output_schema: JsonObject | null;
  effect_class: EffectClass;
  requires_approval: boolean;
  /** The risk before the arguments are known. */
  risk: Risk;
  origin: Origin;
  /** The package that provides the tool with this name. */
  package_id: string;
  /** Set for a tool of a kernel plugin; null if the rollout selects the binding for each call. */
  binding_id: string | null;
  /** Listed for models only after a search has found it. It can be called at any time. */
  deferred: boolean;
}

export interface Catalog {
  /** Sorted by name, including deferred tools. Returns the same array until something changes on this node. */
  list(caller: Caller): Promise<readonly CatalogTool[]>;
  /**
   * Null if the caller is not offered a tool with this name. Returns no promise while the catalog is cached (benchmark
   * mcp.http-call).
   */
  find(caller: Caller, name: string): MaybePromise<CatalogTool | null>;
  /** The deferred tools that match the words of the query, best match first. */
  search(caller: Caller, query: string, limit: number): Promise<readonly CatalogTool[]>;
  /** Sorted by name. With `all` includes tools that the caller is not offered, with the reason. */
  listEntries(caller: Caller, options: { all: boolean }): Promise<readonly CatalogEntry[]>;
  /** All tools with this name, starting with the one that the name resolves to. Throws tool.not_found. */
  get(caller: Caller, name: string): Promise<readonly CatalogEntry[]>;
  /**
   * Calls the listener after a change on this node, with the org or null for all orgs. Returns an unsubscribe
   * function.
   */
  onChanged(listener: (org_id: string | null) => void): () => void;
}

export interface AgentPlugins {
  list(caller: Caller): Promise<PluginView[]>;
  inspect(caller: Caller, source: string, operation?: Operation): Promise<PluginEntry[]>;
  /** Loads or unloads the plugin immediately, without a restart. */
  setEnabled(caller: Caller, name: string, enabled: boolean): Promise<PluginView>;
  /** Admin only. A trusted plugin runs in the gateway's own process. */
  setTrusted(caller: Caller, name: string, trusted: boolean): Promise<PluginView>;
  install(
    caller: Caller,
    source: string,
    options: { editable: boolean },
    operation?: Operation,
  ): Promise<PluginView[]>;
  remove(caller: Caller, name: string): Promise<void>;
  reload(caller: Caller, name: string): Promise<PluginView>;
  health(caller: Caller, timeout_ms: number): Promise<PluginHealth[]>;
}

export interface AgentProviders {
  list(caller: Caller, options: { show: boolean }): Promise<ProviderView[]>;
  create(
    caller: Caller,
    body: { id?: string; plugin: string; label?: string; config?: JsonObject },
  ): Promise<ProviderView>;
  patch(caller: Caller, id: string, body: { label?: string; config?: JsonObject }): Promise<ProviderView>;
  remove(caller: Caller, id: string): Promise<void>;
  setActive(caller: Caller, id: string): Promise<void>;
  test(caller: Caller, id: string): Promise<ProviderTestResult>;
}

export interface AdapterMount extends AdapterRoute {
  plugin: string;
  /** The path, with the prefix `/x/<plugin>` where one is required. */
  mounted: string;
}

export interface Adapters {
  /** The current routes; they change when a plugin is loaded or unloaded. */
  list(): readonly AdapterMount[];
  find(method: string, path: string): { mount: AdapterMount; params: Record<string, string> } | null;
  handle(
    caller: Caller,
    mount: AdapterMount,
    request: { params: Record<string, string>; query: Record<string, string>; body: Json },
  ): Promise<AdapterResponse>;
  /** Whether the operator disabled this plugin. A plugin that is not installed is not disabled. */
  isDisabled(plugin: string): boolean;
  /** Calls `listener` with the name of each plugin that is disabled from now on. */
  onDisabled(listener: (plugin: string) => void): void;
}
