import type { InvocationRow } from "@backplane/ports";
import { grantWith } from "@backplane/test-kit/grant-with";

/** A row as the door writes it, with 1 kB of input. */
export function invocationRow(n: number): InvocationRow {
  const id = `inv_${String(n).padStart(26, "0")}`;
  const now = new Date().toISOString();
  return {
    id,
    export_kind: "tool",
    export_id: "echo",
    binding_id: "bind_01k000000000000000000000000",
    binding_generation: 1,
    package_id: "bench/echo",
    package_version: "1.0.0",
    package_digest: `sha256:${"0".repeat(64)}`,
    class: "worker",
    effect_class: "read_only",
    status: "running",
    org_id: "org_local",
    project_id: "proj_default",
    session_id: null,
    chain_id: null,
    run_id: null,
    trace_id: `tr_${n}`,
    execution_id: `toolx_${n}`,
    retry_count: 0,
    grant: grantWith({ class: "worker" }),
    input: { text: "x".repeat(1000) },
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
    created_at: now,
    started_at: now,
    ended_at: null,
    node_id: "node_bench",
    fence: 1,
    delivery_id: null,
    turn: null,
    depth: 0,
    role: "user",
    within: null,
    harness_run: null,
    channel: null,
  };
}
