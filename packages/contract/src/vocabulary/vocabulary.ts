/** The closed word lists. Every layer spells these exactly so; nothing else is accepted. */

export const EXPORT_KINDS = ["tool", "hook", "compactor", "harness"] as const;
export type ExportKind = (typeof EXPORT_KINDS)[number];

export const EXECUTION_CLASSES = ["inline", "worker", "isolated"] as const;
export type ExecutionClass = (typeof EXECUTION_CLASSES)[number];

/** What a third party's export runs as when nobody says otherwise. */
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

/** Their packages list no exports: what they offer is asked of the running thing, once per binding. */
export const DESCRIBED_PROTOCOLS = [
  "hefty.jsonrpc",
  "mcp.stdio",
  "mcp.http",
  "module.tools",
  "module.instrument",
] as const satisfies readonly Protocol[];

export function isDescribed(protocol: Protocol): boolean {
  return (DESCRIBED_PROTOCOLS as readonly Protocol[]).includes(protocol);
}

/** Their packages hold no program: the server runs elsewhere and is dialled by the gateway. */
export function runsElsewhere(protocol: Protocol): boolean {
  return protocol === "mcp.http";
}

/** Binds every tool of a package at once: one config, one set of secrets, one process for all of them. */
export const WHOLE_PACKAGE = "*";

/** Dialects that give a plugin no secrets in its requests; here alone may they go by environment. */
export const ENV_SECRET_PROTOCOLS: readonly Protocol[] = ["mcp.stdio", "hefty.jsonrpc"];

export const OPS = {
  tool: "tool.invoke",
  hook: "hook.handle",
  compactor: "compactor.compact",
  harness: "harness.run",
} as const satisfies Record<ExportKind, string>;
export type Op = (typeof OPS)[ExportKind];

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

export const FILESYSTEM_ACCESS = ["none", "scratch", "assets_ro"] as const;
export type FilesystemAccess = (typeof FILESYSTEM_ACCESS)[number];

/** What a delegated token can open at the gateway. */
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

/** What an API key can open. `admin` implies all the others. */
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
  "admin",
] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

export const ROLES = ["owner", "admin", "user", "guest"] as const;
export type Role = (typeof ROLES)[number];

export const BINDING_STATUSES = ["active", "inactive", "disabled"] as const;
export type BindingStatus = (typeof BINDING_STATUSES)[number];

export const APPROVAL_STATUSES = ["pending", "approved", "rejected", "expired", "cancelled"] as const;
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

export const APPROVAL_RESPONSES = ["approve", "approve_for_session", "reject"] as const;
export type ApprovalResponse = (typeof APPROVAL_RESPONSES)[number];

/** Semantic events: outbox rows, written in the same transaction as the change they tell of. */
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

/** A turn of the loop. */
export const RUN_STATUSES = ["running", "completed", "failed", "cancelled"] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

/**
 * What began a run: a client's message, `POST /v1/runs`, another run's sub-agent, or the answer to an approval that
 * outlived the turn which had asked for it.
 */
export const RUN_TRIGGERS = ["message", "api", "subagent", "approval"] as const;
export type RunTrigger = (typeof RUN_TRIGGERS)[number];

/** What a line of a tape is. Anchors cut the model's context: it is what comes after the last one. */
export const ENTRY_KINDS = ["anchor", "message", "tool_call", "tool_result", "event"] as const;
export type EntryKind = (typeof ENTRY_KINDS)[number];

/** The same lines as VAI names them. */
export const BLOCK_KINDS = ["system", "input", "response", "thinking", "tool_call", "tool_result"] as const;
export type BlockKind = (typeof BLOCK_KINDS)[number];

/** Why a chain was begun. */
export const CHAIN_ORIGINS = ["start", "reset", "fork", "compaction"] as const;
export type ChainOrigin = (typeof CHAIN_ORIGINS)[number];

export const RISKS = ["low", "medium", "high", "critical", "unknown"] as const;
export type Risk = (typeof RISKS)[number];

/** Where a tool of the catalog comes from; who wins when two have one name follows from it. */
export const ORIGINS = ["core", "workspace", "mcp", "bundled", "plugin"] as const;
export type Origin = (typeof ORIGINS)[number];

export const TOOL_TARGETS = ["sandbox", "host"] as const;
export type ToolTarget = (typeof TOOL_TARGETS)[number];

/** How much risk runs without a question, from the least to the most. */
export const TOLERANCES = ["none", "low", "medium", "full"] as const;
export type Tolerance = (typeof TOLERANCES)[number];

/** Who decided that a tool is called, when it was not the caller itself. Each has a tolerance of its own. */
export const RISK_CONTEXTS = ["conversation", "background", "headless"] as const;
export type RiskContext = (typeof RISK_CONTEXTS)[number];

/** `direct`: the authenticated caller named this very call, so that its risk was its own decision. */
export const CALL_CONTEXTS = ["direct", ...RISK_CONTEXTS] as const;
export type CallContext = (typeof CALL_CONTEXTS)[number];

export const HARNESS_MODES = ["start", "resume"] as const;
export const HARNESS_FIDELITIES = ["lossless", "checkpoint", "prompt_replay", "summary_reseed"] as const;

export const ISOLATION_MODES = ["InProcess", "ClassLoaderIsolated", "External"] as const;

export type IsolationMode = (typeof ISOLATION_MODES)[number];

export const INSTRUMENT_HEALTHS = ["Healthy", "Degraded", "Unhealthy"] as const;
