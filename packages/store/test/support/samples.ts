/** Sample rows for the tests of this module. */
import { randomFillSync } from "node:crypto";
import {
  type ApiKey,
  type Binding,
  createIdSource,
  type ExportKind,
  type Package,
  type SemanticEventType,
} from "@backplane/contract";
import type {
  AllowRuleRow,
  InvocationRow,
  NewApproval,
  NewAudit,
  NewEvent,
  NewExecution,
  NewJob,
  Scope,
  Settlement,
} from "@backplane/ports";
import { grantWith } from "@backplane/test-kit/grant-with";

export const ids = createIdSource(
  () => Date.now(),
  (bytes) => randomFillSync(bytes),
);
export const NOW = "2026-11-01T10:00:00.000Z";
export const LOCAL: Scope = { org_id: "org_local", project_id: "proj_default" };

export function samplePackage(overrides: Partial<Package> = {}): Package {
  const version = overrides.version ?? "0.1.0";
  const package_id = overrides.package_id ?? "acme/devkit";
  return {
    id: ids.next("package"),
    org_id: "org_local",
    package_id,
    version,
    digest: `sha256:${"ab".repeat(32)}`,
    size_bytes: 4096,
    origin: "upload",
    manifest: {
      api_version: "vai.plugin.v1",
      package_id,
      version,
      name: "Devkit",
      description: "",
      license: "",
      source: "",
      runtime: {
        protocol: "vai.rpc.v1",
        transport: "stdio",
        entrypoint: ["node", "main.js"],
        env: {},
        capabilities: [],
      },
      exports: [
        {
          id: "search",
          kind: "tool",
          default_timeout_ms: 30_000,
          permissions: { network: "none", filesystem: "none", gateway_api_scopes: [], secret_slots: [] },
          tool: { effect_class: "read_only", streaming: false, requires_approval: false },
        },
        {
          id: "notify",
          kind: "hook",
          default_timeout_ms: 30_000,
          permissions: { network: "none", filesystem: "none", gateway_api_scopes: [], secret_slots: [] },
          hook: { subscribes_to: ["invocation.settled"] },
        },
      ],
    },
    schemas: { "schemas/input.json": { type: "object" } },
    installed_at: NOW,
    installed_by: "admin",
    ...overrides,
  };
}

export function sampleBinding(overrides: Partial<Binding> = {}): Binding {
  return {
    binding_id: ids.next("binding"),
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "search",
    kind: "tool" satisfies ExportKind,
    scope: LOCAL,
    config: { base_url: "http://127.0.0.1:1" },
    secrets: {},
    status: "active",
    unbound_slots: [],
    rollout: { traffic_percent: 100 },
    policy: {},
    class_lowered_by: null,
    generation: 1,
    created_at: NOW,
    updated_at: NOW,
    ...overrides,
  };
}

export function sampleInvocation(overrides: Partial<InvocationRow> = {}): InvocationRow {
  return {
    id: ids.next("invocation"),
    export_kind: "tool",
    export_id: "search",
    binding_id: "bind_01jc0000000000000000000000",
    binding_generation: 1,
    package_id: "acme/devkit",
    package_version: "0.1.0",
    package_digest: `sha256:${"ab".repeat(32)}`,
    class: "isolated",
    effect_class: "read_only",
    status: "running",
    org_id: "org_local",
    project_id: "proj_default",
    session_id: null,
    chain_id: null,
    run_id: null,
    trace_id: "tr_01jc0000000000000000000000",
    execution_id: "toolx_01jc0000000000000000000000",
    retry_count: 0,
    grant: grantWith(),
    input: { query: "assignee = me and status = open", limit: 20 },
    result: null,
    tool_result: null,
    error: null,
    approval_id: null,
    allowed_by: null,
    timeout_ms: 30_000,
    violations: 0,
    stderr_tail: null,
    egress: null,
    requested_by: "admin",
    created_at: NOW,
    started_at: NOW,
    ended_at: null,
    node_id: "node_a",
    fence: 1,
    delivery_id: null,
    turn: null,
    depth: 0,
    role: "admin",
    within: null,
    harness_run: null,
    channel: "mcp",
    ...overrides,
  };
}

export function sampleApproval(row: InvocationRow, overrides: Partial<NewApproval> = {}): NewApproval {
  return {
    id: ids.next("approval"),
    invocation_id: row.id,
    org_id: row.org_id,
    project_id: row.project_id,
    session_id: row.session_id,
    tool: row.export_id,
    package_id: row.package_id,
    package_version: row.package_version,
    input: row.input,
    digest: `sha256:${"cd".repeat(32)}`,
    replaces: null,
    changed: [],
    covers: { tool: "ab" },
    brief: "search",
    reason: "policy",
    risk: "low",
    may_cover: { session: ["arguments"], always: [] },
    status: "pending",
    response: null,
    feedback: null,
    answered_by: null,
    durable: false,
    requested_at: NOW,
    expires_at: NOW,
    resolved_at: null,
    ...overrides,
  };
}

export function sampleAllowRule(overrides: Partial<AllowRuleRow> = {}): AllowRuleRow {
  return {
    id: ids.next("allow_rule"),
    org_id: "org_local",
    project_id: "proj_default",
    covers: "tool",
    tool: "rm",
    package_id: "acme/devkit",
    arguments: { path: { matches: "/tmp/*" } },
    other_arguments: true,
    max_risk: "high",
    grant: grantWith(),
    identity: "key_1",
    created_by: "admin",
    creator_role: "owner",
    created_at: NOW,
    approval_id: null,
    note: null,
    ...overrides,
  };
}

export function sampleSettlement(overrides: Partial<Settlement> = {}): Settlement {
  return {
    status: "succeeded",
    result: { content: [{ type: "text", text: "3 issues" }] },
    tool_result: null,
    error: null,
    retry_count: 0,
    violations: 0,
    stderr_tail: null,
    egress: null,
    started_at: null,
    ended_at: NOW,
    ...overrides,
  };
}

export function sampleEvent(subject: string, overrides: Partial<NewEvent> = {}): NewEvent {
  return {
    id: ids.next("event"),
    type: "invocation.settled" satisfies SemanticEventType,
    scope: LOCAL,
    occurred_at: Date.parse(NOW),
    subject: { kind: "invocation", id: subject },
    summary: { status: "succeeded" },
    ...overrides,
  };
}

export function sampleAudit(overrides: Partial<NewAudit> = {}): NewAudit {
  return {
    id: ids.next("audit"),
    at: Date.parse(NOW),
    scope: LOCAL,
    actor: "admin",
    action: "secret.put",
    subject: "jira_token",
    details: { version: 1 },
    ...overrides,
  };
}

export function sampleJob(overrides: Partial<NewJob> = {}): NewJob {
  return {
    id: ids.next("job"),
    queue: "deliveries",
    group: null,
    payload: { event: "evt_1" },
    max_attempts: 3,
    ...overrides,
  };
}

export function sampleKey(overrides: Partial<ApiKey> = {}): ApiKey {
  return {
    id: ids.next("key"),
    name: "ci",
    org_id: "org_local",
    project_id: "proj_default",
    role: "user",
    scopes: ["invocations:write"],
    prefix: "bpk_abcd",
    created_at: NOW,
    expires_at: null,
    revoked_at: null,
    ...overrides,
  };
}

export function sampleExecution(row: InvocationRow, overrides: Partial<NewExecution> = {}): NewExecution {
  return {
    id: row.execution_id,
    scope: { org_id: row.org_id, project_id: row.project_id },
    invocation_id: row.id,
    run_id: null,
    export_id: "triage",
    binding_id: row.binding_id,
    depth: 0,
    target: { session_id: "s1" },
    trigger: { type: "user_request" },
    policy: { max_depth: 2, max_child_runs: 3, max_steps: 2, max_compactions: 1, allow_compaction: true },
    deadline: null,
    starts: 1,
    ...overrides,
  };
}
