/** The question as a row: bound by digest to the very tool, version, definition and arguments that would run. */
import { hash } from "node:crypto";
import { APPROVAL_TIMEOUT_MS, type Approval, canonicalJson, type Invocation } from "@backplane/contract";
import { toolDigest } from "../definitions/compare.ts";
import type { KernelDeps } from "../deps.ts";
import type { ExportPlan } from "../invoke/export-plan.ts";
import type { Admitted } from "../policy/admit.ts";

const BRIEF = 80;

export function newApproval(
  deps: Pick<KernelDeps, "ids" | "host">,
  admitted: Admitted,
  row: Invocation,
  now: number,
): Approval | null {
  const { ask, call } = admitted;
  if (ask === null) return null;
  const { binding } = call.plan.bound;
  const timeout_ms = binding.policy.approval_timeout_ms ?? deps.host.approval_timeout_ms;
  return {
    id: deps.ids.next("approval"),
    invocation_id: row.id,
    org_id: row.org_id,
    project_id: row.project_id,
    session_id: row.session_id,
    tool: row.export_id,
    package_id: row.package_id,
    package_version: row.package_version,
    input: row.input,
    digest: approvalDigest(row, call.plan),
    brief: call.turn?.brief == null ? brief(row) : cut(call.turn.brief),
    reason: ask.reason,
    risk: ask.risk,
    status: "pending",
    response: null,
    feedback: null,
    answered_by: null,
    durable: timeout_ms > APPROVAL_TIMEOUT_MS,
    requested_at: new Date(now).toISOString(),
    expires_at: new Date(now + timeout_ms).toISOString(),
    resolved_at: null,
  };
}

export function approvalDigest(
  row: Pick<Invocation, "export_id" | "package_id" | "package_version" | "package_digest" | "input">,
  { bound, export: item }: Pick<ExportPlan, "bound" | "export">,
): string {
  // What a described package's tool is its bytes do not say; a server elsewhere has none here at all.
  const described = bound.described !== undefined && item.kind === "tool";
  const of = {
    tool: row.export_id,
    package_id: row.package_id,
    version: row.package_version,
    digest: row.package_digest,
    input: row.input,
    ...(described ? { definition: toolDigest(item, bound.package.schemas) } : {}),
  };
  return `sha256:${hash("sha256", canonicalJson(of), "hex")}`;
}

function brief(row: Invocation): string {
  return cut(`${row.export_id} ${canonicalJson(row.input)}`);
}

function cut(text: string): string {
  return text.length <= BRIEF ? text : `${text.slice(0, BRIEF - 1)}…`;
}
