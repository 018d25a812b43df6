/** Closed lists of values, used by all layers. */

export const EXPORT_KINDS = ["tool", "hook", "compactor", "harness"] as const;
export type ExportKind = (typeof EXPORT_KINDS)[number];

export const EXECUTION_CLASSES = ["inline", "worker", "isolated"] as const;
export type ExecutionClass = (typeof EXECUTION_CLASSES)[number];

/** The default execution class of third-party exports. */
export const DEFAULT_CLASS: Record<ExportKind, ExecutionClass> = {
  harness: "isolated",
  tool: "isolated",
  hook: "worker",
  compactor: "worker",
};

export const PROTOCOLS = [
  "vai.rpc.v1",
  "rterm.plugin.v1",
  "hefty.jsonrpc",
  "mcp.stdio",
  "mcp.http",
  "module.tools",
  "module.instrument",
  "module.kernel",
  "skills",
] as const;
export type Protocol = (typeof PROTOCOLS)[number];

/**
 * Packages of these protocols list no exports: the gateway asks the running plugin for its tools and stores them for
 * each binding.
 */
export const SELF_DESCRIBING_PROTOCOLS = [
  "hefty.jsonrpc",
  "mcp.stdio",
  "mcp.http",
  "module.tools",
  "module.instrument",
] as const satisfies readonly Protocol[];

export function isSelfDescribing(protocol: Protocol): boolean {
  return (SELF_DESCRIBING_PROTOCOLS as readonly Protocol[]).includes(protocol);
}

/** Packages of these protocols contain no program: the gateway connects to a remote server. */
export function isRemoteProtocol(protocol: Protocol): boolean {
  return protocol === "mcp.http";
}

/** Plugins of these protocols check the arguments of a call themselves and fill in the defaults of their schemas. */
export function validatesInput(protocol: Protocol): boolean {
  return protocol === "mcp.stdio" || protocol === "mcp.http";
}

/** The export id that binds all tools of a package, with one configuration, one set of secrets and one process. */
export const WHOLE_PACKAGE = "*";

/** Protocols that cannot pass secrets in requests. Only their plugins may get secrets as environment variables. */
export const ENV_SECRET_PROTOCOLS: readonly Protocol[] = ["mcp.stdio", "hefty.jsonrpc"];

export const OPS = {
  tool: "tool.invoke",
  hook: "hook.handle",
  compactor: "compactor.compact",
  harness: "harness.run",
} as const satisfies Record<ExportKind, string>;
export type ExportOp = (typeof OPS)[ExportKind];

export const TERMINAL_STATUSES = ["succeeded", "failed", "cancelled", "retryable_failure"] as const;
export type TerminalStatus = (typeof TERMINAL_STATUSES)[number];

export const INVOCATION_STATUSES = ["waiting_approval", "running", ...TERMINAL_STATUSES] as const;
export type InvocationStatus = (typeof INVOCATION_STATUSES)[number];

export function isTerminal(status: InvocationStatus): status is TerminalStatus {
  return status !== "waiting_approval" && status !== "running";
}

export const EFFECT_CLASSES = ["read_only", "idempotent_write", "non_idempotent_write", "unknown"] as const;
export type EffectClass = (typeof EFFECT_CLASSES)[number];

export const NETWORK_ACCESS = ["none", "egress"] as const;
export type NetworkAccess = (typeof NETWORK_ACCESS)[number];

/** Ordered from the narrowest to the widest. */
export const FILESYSTEM_ACCESS = ["none", "assets_ro", "scratch"] as const;
export type FilesystemAccess = (typeof FILESYSTEM_ACCESS)[number];

/** Scopes of a delegated token. */
export const DELEGATION_SCOPES = [
  "sessions:read",
  "sessions:write",
  "chains:read",
  "chains:write",
  "runs:read",
  "runs:write",
  "compactions:read",
  "compactions:write",
  "tools:invoke",
  "llm:invoke",
] as const;
export type DelegationScope = (typeof DELEGATION_SCOPES)[number];

/** Scopes of an API key. `admin` includes all others. */
export const KEY_SCOPES = [
  "packages:read",
  "packages:write",
  "bindings:read",
  "bindings:write",
  "exports:read",
  "invocations:read",
  "invocations:write",
  "approvals:read",
  "approvals:answer",
  "secrets:read",
  "secrets:write",
  "keys:read",
  "keys:write",
  "audit:read",
  "config:read",
  "config:write",
  "sessions:read",
  "sessions:write",
  "plugins:read",
  "plugins:write",
  "policy:read",
  "policy:write",
  "llm:invoke",
  "llm:read",
  "admin",
] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

/** The protocols of the model endpoints: chat completions, responses and messages. */
export const LLM_PROTOCOLS = ["chat", "responses", "messages"] as const;
export type LlmProtocol = (typeof LLM_PROTOCOLS)[number];

/** `lost`: the gateway stopped during the call, so its outcome at the provider is unknown. */
export const LLM_CALL_STATUSES = ["running", "succeeded", "failed", "cancelled", "lost"] as const;
export type LlmCallStatus = (typeof LLM_CALL_STATUSES)[number];

export const ROLES = ["owner", "admin", "user", "guest"] as const;
export type Role = (typeof ROLES)[number];

export const BINDING_STATUSES = ["active", "inactive", "disabled"] as const;
export type BindingStatus = (typeof BINDING_STATUSES)[number];

export const APPROVAL_STATUSES = ["pending", "approved", "rejected", "expired", "cancelled"] as const;
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

export const APPROVAL_RESPONSES = ["approve", "approve_for_session", "approve_always", "reject"] as const;
export type ApprovalResponse = (typeof APPROVAL_RESPONSES)[number];

/** The coverage of an allow rule. */
export const RULE_COVERAGES = ["tool", "server"] as const;
/** The coverage of an answer: calls with the same arguments, all calls to the tool, or all tools of its server. */
export const ANSWER_COVERAGES = ["arguments", ...RULE_COVERAGES] as const;
export type AnswerCoverage = (typeof ANSWER_COVERAGES)[number];

/** The highest risk that an allow rule can cover. Unknown counts as high, and no allow rule covers a critical call. */
export const RULE_RISKS = ["low", "medium", "high"] as const;
export type RuleRisk = (typeof RULE_RISKS)[number];

/** Semantic events: outbox rows, written in the same transaction as their change. */
export const SEMANTIC_EVENTS = [
  "run.started",
  "run.completed",
  "run.failed",
  "run.cancelled",
  "chain.created",
  "chain.forked",
  "chain.compacted",
  "session.created",
  "session.archived",
  "invocation.settled",
  "approval.requested",
  "approval.resolved",
  "package.installed",
  "binding.changed",
] as const;
export type SemanticEventType = (typeof SEMANTIC_EVENTS)[number];

/** The status of a delivery. A dead delivery has no attempts left. */
export const DELIVERY_STATUSES = ["pending", "running", "delivered", "dead", "discarded"] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** The status of a run. */
export const RUN_STATUSES = ["running", "completed", "failed", "cancelled"] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

/**
 * The trigger of a run: a client's message, `POST /v1/runs`, a sub-agent of another run, the answer to an approval
 * whose turn had already ended, or a harness that starts a child run.
 */
export const RUN_TRIGGERS = ["message", "api", "subagent", "approval", "harness"] as const;
export type RunTrigger = (typeof RUN_TRIGGERS)[number];

/** Kinds of tape entries. The model's context starts at the last anchor. */
export const ENTRY_KINDS = ["anchor", "message", "tool_call", "tool_result", "event"] as const;
export type EntryKind = (typeof ENTRY_KINDS)[number];

/** Kinds of blocks, the VAI form of entries. */
export const BLOCK_KINDS = ["system", "input", "response", "thinking", "tool_call", "tool_result"] as const;
export type BlockKind = (typeof BLOCK_KINDS)[number];

/** Why a chain was created. */
export const CHAIN_ORIGINS = ["start", "reset", "fork", "compaction"] as const;
export type ChainOrigin = (typeof CHAIN_ORIGINS)[number];

export const RISKS = ["low", "medium", "high", "critical", "unknown"] as const;
export type Risk = (typeof RISKS)[number];

/** The source of a tool; it decides which of two tools with the same name is offered. */
export const ORIGINS = ["core", "workspace", "mcp", "bundled", "plugin"] as const;
export type Origin = (typeof ORIGINS)[number];

/** Names of origins in policies that were written for Hefty. */
export const HEFTY_ORIGINS = { base: "core", built_in: "bundled" } as const satisfies Record<string, Origin>;
export type HeftyOrigin = keyof typeof HEFTY_ORIGINS;

/** Why models find a tool only through tool_search. */
export const DEFERRALS = ["author", "policy", "profile", "budget"] as const;
export type Deferral = (typeof DEFERRALS)[number];

export const TOOL_TARGETS = ["sandbox", "host"] as const;
export type ToolTarget = (typeof TOOL_TARGETS)[number];

/** How much risk runs without approval, from least to most. */
export const TOLERANCES = ["none", "low", "medium", "full"] as const;
export type Tolerance = (typeof TOLERANCES)[number];

/**
 * The situation in which a model decides to call a tool: a person is watching (`conversation`), nobody is watching
 * (`background`), or nobody can approve a call (`headless`). Each context has its own tolerance.
 */
export const RISK_CONTEXTS = ["conversation", "background", "headless"] as const;
export type RiskContext = (typeof RISK_CONTEXTS)[number];

/** `direct`: the authenticated caller requested exactly this call and accepted its risk. */
export const CALL_CONTEXTS = ["direct", ...RISK_CONTEXTS] as const;
export type CallContext = (typeof CALL_CONTEXTS)[number];

export const HARNESS_MODES = ["start", "resume"] as const;
/**
 * The state that a resumed harness gets: the data of its last checkpoint (`lossless`, `checkpoint`), its trigger and
 * chain (`prompt_replay`), or a new chain that begins with its summary (`summary_reseed`).
 */
export const HARNESS_FIDELITIES = ["lossless", "checkpoint", "prompt_replay", "summary_reseed"] as const;
export type HarnessFidelity = (typeof HARNESS_FIDELITIES)[number];
/** `composite` starts child runs; `hosted` runs its own agent loop and starts none. */
export const HARNESS_KINDS = ["composite", "hosted"] as const;
/**
 * The operations that a harness may use through the gateway's API. The host withholds the scopes of operations that its
 * manifest does not list.
 */
export const HARNESS_SUPPORTS = ["continue", "branch_session", "compact", "tool"] as const;

export const ISOLATION_MODES = ["InProcess", "ClassLoaderIsolated", "External"] as const;
export type IsolationMode = (typeof ISOLATION_MODES)[number];

export const INSTRUMENT_HEALTH_STATUSES = ["Healthy", "Degraded", "Unhealthy"] as const;

/** `failed` is an error that a plugin reports; the gateway detects the others. A kernel tool may return any kind. */
export const TOOL_ERROR_KINDS = [
  "validation",
  "timeout",
  "rejected",
  "crashed",
  "internal",
  "failed",
] as const;
export type ToolErrorKind = (typeof TOOL_ERROR_KINDS)[number];
