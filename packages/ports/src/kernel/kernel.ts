/**
 * What the edges (HTTP, MCP, the loop, a delivery) may ask of the kernel. Every method takes the caller first
 * and stays inside its scope; what a caller may not see does not exist for it. Failures are BackplaneErrors.
 * Scopes of keys are checked by the edge; roles, tenancy and "admin only" are checked here.
 */
import type {
  AgentPluginInstalled,
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
  BindingUpgrade,
  CallContext,
  ConfigEntry,
  ConfigMap,
  ConfigUpdated,
  DiscoveredExport,
  ExportKind,
  Invocation,
  InvocationEvent,
  InvocationStatus,
  InvokeBody,
  Json,
  KeyCreate,
  Package,
  Policy,
  PolicyAnswer,
  PolicyExplanation,
  PolicyLevel,
  PolicyPatch,
  RiskContext,
  Role,
  Secret,
  SecretKeyRotation,
  SemanticEvent,
  ValidationReport,
} from "@backplane/contract";
import type { AgentPluginSource, PackageSource } from "../host/package-files.ts";
import type { RunnerHealth } from "../host/runner.ts";
import type { Caller, Page, PageOf } from "../scope/scope.ts";
import type { OnceKey } from "../store/access-store.ts";
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
import type { AnswerPluginRequest } from "./plugin-requests.ts";
import type { Servers } from "./servers.ts";
import type { SignIns } from "./sign-ins.ts";
import type { WorkspacesFacade } from "./workspaces.ts";

/** A started call. `settled` resolves with the terminal record, whoever ends it; it never rejects. */
export interface Ticket {
  id: string;
  invocation: Invocation;
  /** The invocation's, without a copy of it. */
  readonly status: Invocation["status"];
  settled: Promise<Invocation>;
  /** How many events it has told so far: who sees none need not ask `watch` for them. */
  readonly events: number;
}

export type WatchItem =
  | { seq: number; at: string; event: InvocationEvent["event"] }
  | { settled: Invocation };

export interface Kernel {
  packages: {
    install(caller: Caller, source: PackageSource): Promise<{ package: Package; created: boolean }>;
    /** `strict`: nothing is installed where a part cannot be used. */
    installAgentPlugin(
      caller: Caller,
      source: AgentPluginSource,
      how: { strict: boolean },
    ): Promise<AgentPluginInstalled>;
    get(caller: Caller, id: string): Promise<Package>;
    list(caller: Caller, page: Page): Promise<PageOf<Package>>;
    remove(caller: Caller, id: string): Promise<void>;
  };
  bindings: {
    create(caller: Caller, body: BindingCreate): Promise<Binding>;
    get(caller: Caller, id: string): Promise<Binding>;
    list(
      caller: Caller,
      filter: { kind?: ExportKind; package_id?: string },
      page: Page,
    ): Promise<PageOf<Binding>>;
    /** `expected` is the generation of If-Match; undefined retries over concurrent changes. */
    patch(caller: Caller, id: string, body: BindingPatch, expected: number | undefined): Promise<Binding>;
    /** All bindings of a package in one scope to another version, in one transaction. */
    upgrade(caller: Caller, body: BindingUpgrade): Promise<Binding[]>;
    /** Back to the version before the last move, with the settings that it had. */
    rollback(caller: Caller, id: string, expected?: number): Promise<Binding>;
    validate(caller: Caller, id: string): Promise<ValidationReport>;
    /** `expected` is the generation of If-Match. */
    remove(caller: Caller, id: string, expected?: number): Promise<void>;
  };
  /** Folders of the gateway's machine whose tool files are trusted. */
  workspaces: WorkspacesFacade;
  /** What the tools of a described binding are. */
  definitions: DefinitionsFacade;
  /** The gateway's sign-ins at servers at an address. */
  signIns: SignIns;
  /** Instrument plugins at run time, for the admin. */
  instruments: InstrumentsFacade;
  /** The models, for instrument plugins in this process. */
  cognition: Cognition;
  /** The tools that the caller may be offered, as the loop offers them to its models. */
  catalog: Catalog;
  /** The MCP servers behind the caller's bindings. */
  servers: Servers;
  exports: { discover(caller: Caller, kind: ExportKind): Promise<DiscoveredExport[]> };
  invocations: {
    /** The one door. Resolves when the row is on disk; throws for refusals before there is a row. */
    invoke(
      caller: Caller,
      body: InvokeBody,
      how?: { context?: RiskContext; answerRequest?: AnswerPluginRequest },
    ): Promise<Ticket>;
    /**
     * The same under an Idempotency-Key, which is taken in the transaction that opens the call: a repeat with the same
     * digest gets its id and no ticket, at any moment after; another digest throws idempotency.conflict.
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
      filter: { status?: InvocationStatus; export_id?: string; session_id?: string; binding_id?: string },
      page: Page,
    ): Promise<PageOf<Invocation>>;
    /** The bytes that a result refers to by this hash. Throws artifact.not_found. */
    artifact(
      caller: Caller,
      id: string,
      sha256: string,
    ): Promise<{ bytes: number; content: AsyncIterable<Uint8Array> }>;
    /** Throws `invocation.settled` when it has ended. Resolves when the cancel is under way. */
    cancel(caller: Caller, id: string): Promise<Invocation>;
    /** Replays what came after `after_seq`, then live, ends with `settled`. */
    watch(caller: Caller, id: string, after_seq: number, stop: AbortSignal): AsyncIterable<WatchItem>;
  };
  approvals: {
    get(caller: Caller, id: string): Promise<Approval>;
    list(caller: Caller, filter: { status?: ApprovalStatus }, page: Page): Promise<PageOf<Approval>>;
    answer(caller: Caller, id: string, answer: ApprovalAnswer): Promise<Approval>;
    grants(caller: Caller): ApprovalGrant[];
    revokeGrant(caller: Caller, id: string): Promise<void>;
  };
  /** What may be called, by whom, and what a person is asked first. A change holds from the next call on. */
  policy: {
    get(caller: Caller, level: PolicyLevel): Promise<PolicyAnswer>;
    /** Replaced whole. `expected` is the generation of If-Match. */
    put(caller: Caller, level: PolicyLevel, policy: Policy, expected?: number): Promise<PolicyAnswer>;
    /** null takes a field back to its default. */
    patch(caller: Caller, level: PolicyLevel, patch: PolicyPatch, expected?: number): Promise<PolicyAnswer>;
    /** The rules of admission as they would decide on a call of this tool. Throws tool.not_found, tool.collision. */
    explain(
      caller: Caller,
      about: { tool: string; context: CallContext; role?: Role; input?: Json },
    ): Promise<PolicyExplanation>;
  };
  secrets: {
    put(caller: Caller, name: string, value: string): Promise<Secret>;
    get(caller: Caller, name: string): Promise<Secret>;
    list(caller: Caller, page: Page): Promise<PageOf<Secret>>;
    remove(caller: Caller, name: string): Promise<void>;
    /** Seals everything of every org again, with a new key or the newest there is. The admin token only. */
    rotateKey(caller: Caller, options: { new_key: boolean }): Promise<SecretKeyRotation>;
  };
  keys: {
    /** `token` is shown this once. */
    create(caller: Caller, body: KeyCreate): Promise<{ key: ApiKey; token: string }>;
    /** Of the caller's project; `project` names another one in its reach, or `*` for all of them. */
    list(caller: Caller, page: Page, filter?: { project?: string }): Promise<PageOf<ApiKey>>;
    revoke(caller: Caller, id: string, filter?: { project?: string }): Promise<void>;
    /** `bpk_…` API keys and `vai_dlg_…` delegated tokens. Throws auth.invalid. Hot: cached where that is safe. */
    /** `proof`: the listener that a delegated request came by, as the runner's relay says (Runner.listenerProof). */
    authenticate(token: string, proof?: string): Promise<Caller>;
  };
  sessions: AgentSessions;
  chains: AgentChains;
  runs: AgentRuns;
  fanout: Fanout;
  plugins: AgentPlugins;
  providers: AgentProviders;
  adapters: Adapters;
  /** Tells of a fault of the kernel itself, before the process ends because of it. */
  fault: (source: string, error: unknown) => void;
  audit: {
    list(caller: Caller, filter: { action?: string }, page: Page): Promise<PageOf<AuditEntry>>;
    /** Verifies the whole log, of every org, and compares it with what is noted outside of the store. */
    verify(caller: Caller): Promise<AuditReport>;
  };
  /** The live configuration of the caller's org. */
  config: {
    /** Masked; `show` answers the value itself, to an admin only, and is on the record. */
    get(caller: Caller, key: string, options?: { show?: boolean }): Promise<ConfigEntry>;
    /** Masked. */
    list(caller: Caller): Promise<ConfigMap>;
    /** All keys or none. Answers the secret keys that are gone, because what they were sent to changed. */
    set(caller: Caller, values: Readonly<Record<string, Json>>): Promise<string[]>;
    /** One key, or `a.b.*`; answers the keys that are gone. */
    unset(caller: Caller, pattern: string): Promise<string[]>;
    /** Once per key and write of this process, after it is on disk. Answers how to stop. */
    onUpdated(listener: (updated: ConfigUpdated, org_id: string) => void): () => void;
  };
  events: {
    /** Semantic events of the caller's scope after `after_seq`, then live. */
    watch(caller: Caller, after_seq: number, stop: AbortSignal): AsyncIterable<SemanticEvent>;
  };
  idempotency: {
    /**
     * Runs `work` once per (scope, key): a repeat with the same digest gets the stored answer, another digest
     * throws idempotency.conflict, a running one idempotency.in_progress.
     */
    once(
      caller: Caller,
      key: string,
      digest: string,
      work: () => Promise<{ status: number; body: string }>,
    ): Promise<{ status: number; body: string; replayed: boolean }>;
    /**
     * For work that takes the key in its own transaction: whoever dies when, a repeat finds what was made, or nothing
     * was. `before` is the JSON that the key was answered with.
     */
    open<T>(
      caller: Caller,
      key: string,
      digest: string,
      begin: (once: OnceKey) => Promise<T>,
    ): Promise<{ began: T; before: null } | { began: null; before: string }>;
  };
  health(): Promise<KernelHealth>;
  /** Boot: recovers orphans, re-arms approvals, starts the dispatcher and the job workers. */
  start(): Promise<void>;
  /** No new work; what runs is told to end, and recorded as ended after `grace_ms` whether it did or not. */
  stop(grace_ms: number): Promise<void>;
}

export interface KernelHealth {
  store: { ok: boolean; error?: string };
  runner: RunnerHealth;
  invocations: { running: number; waiting_approval: number; queued: number };
  /** Whether this gateway may start calls, and whether it takes over the work of gateways that are gone. */
  lease: { held: boolean; takes_over: boolean };
  stopping: boolean;
}
