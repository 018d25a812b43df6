/**
 * The kernel's facade for HTTP, MCP, the agent loop and deliveries. A method that acts for a caller is confined to the
 * caller's scope: a resource that the caller may not see is reported as not found. Failures are BackplaneErrors. The
 * API checks the scopes of keys; the kernel checks roles, tenancy and admin-only operations.
 */
import type {
  AgentPluginInstalled,
  AllowRule,
  AllowRuleCreate,
  ApiKey,
  Approval,
  ApprovalAnswer,
  ApprovalGrant,
  ApprovalStatus,
  AuditEntry,
  AuditReport,
  Binding,
  BindingCreate,
  BindingPatch,
  BindingRollback,
  BindingUpgrade,
  CallContext,
  ConfigEntry,
  ConfigMap,
  ConfigUpdated,
  Delivery,
  DeliveryStatus,
  DiscoveredExport,
  ExecutionClass,
  ExportKind,
  FrameRecording,
  HookTest,
  Installation,
  InstallationSettings,
  Invocation,
  InvocationEvent,
  InvocationStatus,
  InvokeBody,
  Json,
  KeyCreate,
  MarketplaceCard,
  MarketplaceList,
  OutdatedPackage,
  Package,
  Policy,
  PolicyExplanation,
  PolicyLevel,
  PolicyPatch,
  PolicyView,
  ReplayReport,
  ReplayRequest,
  RiskContext,
  Role,
  Secret,
  SecretKeyRotation,
  SemanticEvent,
  ServerSearch,
  SourceInspection,
  TraceSpan,
  TrustedKey,
  TrustedKeyCreate,
  ValidationReport,
  WaitingUpgrade,
} from "@backplane/contract";
import type { Operation } from "../host/operation.ts";
import type { InstallationSource } from "../host/package-files.ts";
import type { RunnerHealth } from "../host/runner.ts";
import type { Caller, Page, PageOf } from "../scope/scope.ts";
import type { IdempotencyClaim } from "../store/access-store.ts";
import type {
  Adapters,
  AgentChains,
  AgentPlugins,
  AgentProviders,
  AgentRuns,
  AgentSessions,
  Catalog,
  Fanout,
} from "./agent.ts";
import type { Cognition } from "./cognition.ts";
import type { DefinitionsFacade } from "./definitions.ts";
import type { InstrumentsFacade } from "./instruments.ts";
import type { LlmEndpoints } from "./llm.ts";
import type { AnswerPluginRequest } from "./plugin-requests.ts";
import type { Servers } from "./servers.ts";
import type { SignIns } from "./sign-ins.ts";
import type { WorkspacesFacade } from "./workspaces.ts";

/** A started call. `settled` resolves to the terminal record, even if another node settles it, and never rejects. */
export interface Ticket {
  id: string;
  invocation: Invocation;
  /** The invocation's status, readable without copying the record. */
  readonly status: Invocation["status"];
  settled: Promise<Invocation>;
  /** The number of events so far; a caller that sees 0 can skip `watch`. */
  readonly events: number;
}

export type WatchItem =
  | { seq: number; at: string; event: InvocationEvent["event"] }
  | { settled: Invocation };

export interface Kernel {
  /** Installs packages from any source and binds them, in one transaction. */
  installations: {
    /** Identifies the source. Changes nothing and runs no code from the source. */
    inspect(caller: Caller, source: InstallationSource, operation?: Operation): Promise<SourceInspection>;
    /**
     * All packages and bindings are stored together; an error leaves no rows and no bytes behind. If a source has
     * several parts, a part that cannot be used is left out and reported, unless `strict` is set. A cancelled
     * operation throws `request.cancelled` unless the transaction has begun.
     */
    install(
      caller: Caller,
      source: InstallationSource,
      settings: InstallationSettings,
      operation?: Operation,
    ): Promise<Installation>;
  };
  packages: {
    /** Installs the one package of the source and does not bind it. */
    install(
      caller: Caller,
      source: InstallationSource,
      operation?: Operation,
    ): Promise<{ package: Package; created: boolean }>;
    /** With `strict` nothing is installed if a part of the plugin is not supported. Nothing is bound. */
    installAgentPlugin(
      caller: Caller,
      source: InstallationSource,
      options: { strict: boolean },
      operation?: Operation,
    ): Promise<AgentPluginInstalled>;
    get(caller: Caller, id: string): Promise<Package>;
    list(caller: Caller, page: Page): Promise<PageOf<Package>>;
    remove(caller: Caller, id: string): Promise<void>;
    /** Looks for newer versions of the installed packages, including at their sources. */
    listOutdated(caller: Caller, operation?: Operation): Promise<OutdatedPackage[]>;
    /**
     * Runs recorded read-only calls of the bindings that use another version against this one, in the sandbox without
     * network access or secrets, and compares the results. No binding is changed, and the calls leave no invocations.
     */
    replay(caller: Caller, id: string, request: ReplayRequest, operation?: Operation): Promise<ReplayReport>;
  };
  bindings: {
    /** Like the other methods here with an `operation`, reports the launch of the server to it. */
    create(caller: Caller, body: BindingCreate, operation?: Operation): Promise<Binding>;
    get(caller: Caller, id: string): Promise<Binding>;
    list(
      caller: Caller,
      filter: { kind?: ExportKind; package_id?: string },
      page: Page,
    ): Promise<PageOf<Binding>>;
    /** `expected` is the generation from If-Match. If absent, the patch is retried after a concurrent change. */
    patch(
      caller: Caller,
      id: string,
      body: BindingPatch,
      expected: number | undefined,
      operation?: Operation,
    ): Promise<Binding>;
    /** The upgrades that a person has to decide on. */
    listWaitingUpgrades(caller: Caller): Promise<WaitingUpgrade[]>;
    /** Changes all bindings of a package in one scope to another version, in one transaction. */
    upgrade(caller: Caller, body: BindingUpgrade, operation?: Operation): Promise<Binding[]>;
    /**
     * Returns to the version before the last change of version, with the settings of that version. A second rollback
     * undoes the first.
     */
    rollback(caller: Caller, id: string, expected?: number, operation?: Operation): Promise<Binding>;
    /**
     * Undoes the upgrade of a package in one scope, in one transaction: ends a rollout and withdraws a held upgrade, or
     * returns every binding to the version before its upgrade. Throws `request.invalid` if that was done already.
     */
    rollbackPackage(caller: Caller, body: BindingRollback, operation?: Operation): Promise<Binding[]>;
    validate(caller: Caller, id: string): Promise<ValidationReport>;
    /** `expected` is the generation from If-Match. */
    remove(caller: Caller, id: string, expected?: number): Promise<void>;
  };
  /** Trusted folders of the gateway's machine with tool files. */
  workspaces: WorkspacesFacade;
  /** Tool definitions of bindings whose package is described by its running process. */
  definitions: DefinitionsFacade;
  /** The gateway's sign-ins to remote servers. */
  signIns: SignIns;
  /** Administration of instrument plugins at run time. */
  instruments: InstrumentsFacade;
  /** Access of instrument plugins in this process to the gateway's models. */
  cognition: Cognition;
  /** The tools that the caller may use, as the agent loop offers them to its models. */
  catalog: Catalog;
  /** The MCP servers behind the caller's bindings. */
  servers: Servers;
  exports: { discover(caller: Caller, kind: ExportKind): Promise<DiscoveredExport[]> };
  /** Recorded frames of plugin processes, in the memory of this gateway. */
  frames: {
    /** Replaces the processes of a binding and records the frames of the new ones; 0 seconds ends the recording. */
    record(caller: Caller, binding_id: string, seconds: number): Promise<Omit<FrameRecording, "items">>;
    /** The recorded frames of a call. */
    list(caller: Caller, invocation_id: string): Promise<FrameRecording>;
  };
  invocations: {
    /** The door for all calls. Resolves when the row is on disk; throws if the call is rejected before a row exists. */
    invoke(
      caller: Caller,
      body: InvokeBody,
      options?: { context?: RiskContext; answerRequest?: AnswerPluginRequest },
    ): Promise<Ticket>;
    /**
     * Like `invoke`, under an Idempotency-Key that is claimed in the transaction that opens the call. A repeat with the
     * same digest gets the id without a ticket; another digest throws idempotency.conflict.
     */
    invokeOnce(
      caller: Caller,
      body: InvokeBody,
      key: string,
      digest: string,
    ): Promise<{ id: string; ticket: Ticket | null }>;
    get(caller: Caller, id: string): Promise<Invocation>;
    list(
      caller: Caller,
      filter: {
        /** Several statuses match any of them. */
        status?: InvocationStatus | readonly InvocationStatus[];
        export_id?: string;
        session_id?: string;
        binding_id?: string;
      },
      page: Page,
    ): Promise<PageOf<Invocation>>;
    /** The calls of a trace, oldest first: those of a run and its sub-agents, and the calls nested in a call. */
    listTrace(caller: Caller, trace_id: string, page: Page): Promise<PageOf<TraceSpan>>;
    /** The bytes that a result refers to by this hash. Throws artifact.not_found. */
    openArtifact(
      caller: Caller,
      id: string,
      sha256: string,
    ): Promise<{ bytes: number; content: AsyncIterable<Uint8Array> }>;
    /** Throws `invocation.settled` if the invocation has ended. Resolves when the cancellation is under way. */
    cancel(caller: Caller, id: string): Promise<Invocation>;
    /** Replays the events after `after_seq`, continues with live events and ends with `settled`. */
    watch(caller: Caller, id: string, after_seq: number, stop: AbortSignal): AsyncIterable<WatchItem>;
  };
  approvals: {
    get(caller: Caller, id: string): Promise<Approval>;
    list(caller: Caller, filter: { status?: ApprovalStatus }, page: Page): Promise<PageOf<Approval>>;
    answer(caller: Caller, id: string, answer: ApprovalAnswer): Promise<Approval>;
    listGrants(caller: Caller): ApprovalGrant[];
    revokeGrant(caller: Caller, id: string): Promise<void>;
  };
  /**
   * Lasting permissions to call tools without an approval. Read at every call that needs approval, so a change applies
   * immediately.
   */
  allow_rules: {
    list(caller: Caller, page: Page): Promise<PageOf<AllowRule>>;
    /** Throws allow_rule.refused when the policy, the binding or the tool does not permit the rule. */
    create(caller: Caller, body: AllowRuleCreate): Promise<AllowRule>;
    remove(caller: Caller, id: string): Promise<void>;
  };
  /** The rules for who may call which tools, and which calls need approval. A change applies from the next call. */
  policy: {
    get(caller: Caller, level: PolicyLevel): Promise<PolicyView>;
    /** Replaces the whole policy. `expected` is the generation from If-Match. */
    put(caller: Caller, level: PolicyLevel, policy: Policy, expected?: number): Promise<PolicyView>;
    /** A null field is reset to its default. */
    patch(caller: Caller, level: PolicyLevel, patch: PolicyPatch, expected?: number): Promise<PolicyView>;
    /** Explains how the rules would decide on a call to this tool. Throws tool.not_found, tool.collision. */
    explain(
      caller: Caller,
      call: { tool: string; context: CallContext; role?: Role; channel?: string; input?: Json },
    ): Promise<PolicyExplanation>;
  };
  secrets: {
    put(caller: Caller, name: string, value: string): Promise<Secret>;
    get(caller: Caller, name: string): Promise<Secret>;
    list(caller: Caller, page: Page): Promise<PageOf<Secret>>;
    remove(caller: Caller, name: string): Promise<void>;
    /** Re-encrypts the secrets of all orgs with a new key or with the newest existing one. Admin token only. */
    rotateKey(caller: Caller, options: { new_key: boolean }): Promise<SecretKeyRotation>;
  };
  /** Keys that the org trusts to sign packages. */
  trusted_keys: {
    list(caller: Caller, page: Page): Promise<PageOf<TrustedKey>>;
    get(caller: Caller, id: string): Promise<TrustedKey>;
    /**
     * Admin only, like `revoke`. Updates a key that is already trusted; fields that are left out stay as they are.
     * Throws trusted_key.conflict for a revoked key.
     */
    trust(caller: Caller, body: TrustedKeyCreate): Promise<{ key: TrustedKey; created: boolean }>;
    /** Installed packages keep running; nothing else that the key signed can be installed. */
    revoke(caller: Caller, id: string, reason: string | null): Promise<TrustedKey>;
  };
  /** Curated entries, independent of what is installed. */
  marketplace: {
    list(caller: Caller, filter: { search?: string | undefined }): Promise<MarketplaceList>;
    get(caller: Caller, id: string): Promise<MarketplaceCard>;
    /** Searches the public registry that the operator configured. Its entries have not been reviewed. */
    searchServers(caller: Caller, text: string): Promise<ServerSearch>;
    /**
     * Stores the package and its bindings, without running any code and without changing bindings of other versions.
     * `oci` is the artifact on the card that the operator approved.
     */
    install(
      caller: Caller,
      id: string,
      settings: InstallationSettings & { oci?: string | undefined },
      operation?: Operation,
    ): Promise<Installation>;
  };
  keys: {
    /** `token` is returned only here and cannot be read again. */
    create(caller: Caller, body: KeyCreate): Promise<{ key: ApiKey; token: string }>;
    /**
     * Lists the keys of the caller's project; `project` selects another project that the caller can access, or `*` for
     * all of them.
     */
    list(caller: Caller, page: Page, filter?: { project?: string }): Promise<PageOf<ApiKey>>;
    revoke(caller: Caller, id: string, filter?: { project?: string }): Promise<void>;
    /**
     * Accepts `bpk_…` API keys and `vai_dlg_…` delegated tokens. `proof` identifies the listener of a delegated request
     * (Runner.listenerProof). Throws auth.invalid. Called for every request, so the store may keep keys in memory.
     */
    authenticate(token: string, proof?: string): Promise<Caller>;
  };
  sessions: AgentSessions;
  chains: AgentChains;
  runs: AgentRuns;
  fanout: Fanout;
  plugins: AgentPlugins;
  providers: AgentProviders;
  /** Calls to provider instances on behalf of API clients. */
  llm: LlmEndpoints;
  adapters: Adapters;
  /** Reports an internal fault before the process exits because of it. */
  reportFault: (source: string, error: unknown) => void;
  audit: {
    list(caller: Caller, filter: { action?: string }, page: Page): Promise<PageOf<AuditEntry>>;
    /** Verifies the log of all orgs and compares its end with the anchor outside the store. */
    verify(caller: Caller): Promise<AuditReport>;
  };
  /** The live configuration of the caller's org. */
  config: {
    /** Masks a secret value. `show` returns it in the clear, for an admin only, and is audited. */
    get(caller: Caller, key: string, options?: { show?: boolean }): Promise<ConfigEntry>;
    /** Masks all secret values. */
    list(caller: Caller): Promise<ConfigMap>;
    /** Sets all keys or none. Returns the secret keys that were removed because their destination changed. */
    set(caller: Caller, values: Readonly<Record<string, Json>>): Promise<string[]>;
    /** Removes one key, or all keys of `a.b.*`; returns the removed keys. */
    unset(caller: Caller, pattern: string): Promise<string[]>;
    /** Calls the listener once per key and write of this process, after the commit. Returns an unsubscribe function. */
    onUpdated(listener: (updated: ConfigUpdated, org_id: string) => void): () => void;
  };
  events: {
    /** The seq up to which all events are known; a watcher that starts there gets only later ones. */
    getPosition(): Promise<number>;
    /** Replays the semantic events of the caller's scope after `after_seq`, then continues with live events. */
    watch(caller: Caller, after_seq: number, stop: AbortSignal): AsyncIterable<SemanticEvent>;
  };
  /** Deliveries of events to hooks. */
  deliveries: {
    list(
      caller: Caller,
      filter: { status?: DeliveryStatus | undefined; binding_id?: string | undefined },
      page: Page,
    ): Promise<PageOf<Delivery>>;
    get(caller: Caller, id: string): Promise<Delivery>;
    /** Throws `delivery.conflict` unless the delivery is dead. */
    replay(caller: Caller, id: string): Promise<Delivery>;
    /** Throws `delivery.conflict` unless the delivery is pending or dead. */
    discard(caller: Caller, id: string): Promise<Delivery>;
    /** Delivers an example event to a hook once, regardless of its filters. */
    test(caller: Caller, binding_id: string, options: HookTest): Promise<Delivery>;
  };
  idempotency: {
    /**
     * Runs `work` once per scope and key. A repeat with the same digest gets the stored response. Throws
     * idempotency.conflict for another digest and idempotency.in_progress while the first request runs.
     */
    once(
      caller: Caller,
      key: string,
      digest: string,
      work: () => Promise<{ status: number; body: string }>,
    ): Promise<{ status: number; body: string; replayed: boolean }>;
    /**
     * For work that claims the key in its own transaction, so that after a crash at any point either the work and the
     * key are both stored or neither is. `stored` is the JSON stored with the key by an earlier request.
     */
    open<T>(
      caller: Caller,
      key: string,
      digest: string,
      begin: (once: IdempotencyClaim) => Promise<T>,
    ): Promise<{ result: T; stored: null } | { result: null; stored: string }>;
  };
  health(): Promise<KernelHealth>;
  /** Starts all parts of the kernel, and recovers the calls, pending approvals and turns of dead nodes. */
  start(): Promise<void>;
  /**
   * Rejects new work and cancels running calls. After `grace_ms`, calls that still run are recorded as ended, except
   * those of harnesses, which the next gateway continues.
   */
  stop(grace_ms: number): Promise<void>;
}

export interface EndedCalls {
  kind: ExportKind;
  /** `host` for calls that ran on the host itself, whatever the class of their binding. */
  class: ExecutionClass | "host";
  status: InvocationStatus;
  count: number;
}

export interface KernelHealth {
  store: { ok: boolean; error?: string };
  runner: RunnerHealth;
  invocations: { running: number; waiting_approval: number; queued: number };
  /** Calls that ended on this node since it started. */
  ended: EndedCalls[];
  /** Whether this gateway may start calls, and whether it takes over work of dead gateways. */
  lease: { held: boolean; takes_over: boolean };
  stopping: boolean;
}
