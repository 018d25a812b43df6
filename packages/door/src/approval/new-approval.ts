/** Builds approval rows. The digest binds an approval to everything that decides what the call does (`coverage.ts`). */

import { APPROVAL_TIMEOUT_MS, type Approval, canonicalJson, type Invocation } from "@backplane/contract";
import type { KernelDeps, NewApproval } from "@backplane/ports";
import type { Admitted } from "../admission/admit.ts";
import { listAnswerCoverages } from "../admission/lasting-permission.ts";
import type { Coverage } from "../calls/live-calls.ts";

const BRIEF_CHARS = 80;

type Deps = Pick<KernelDeps, "ids" | "host">;

export function buildApproval(
  deps: Deps,
  { ask, call }: Admitted,
  row: Invocation,
  coverage: Coverage,
  now: number,
): NewApproval | null {
  if (ask === null) return null;
  const { reason, risk } = ask;
  const brief = truncate(call.turn?.brief ?? `${row.export_id} ${canonicalJson(row.input)}`);
  return buildRow(deps, call, row, coverage, now, { brief, reason, risk, replaces: null, changed: [] });
}

/** Builds the approval for a call that now differs from the call that `replaced` covers. */
export function buildFollowUpApproval(
  deps: Deps,
  { call }: Admitted,
  row: Invocation,
  coverage: Coverage,
  now: number,
  replaced: Approval,
  changed: string[],
): NewApproval {
  const { brief, reason, risk, id: replaces } = replaced;
  return buildRow(deps, call, row, coverage, now, { brief, reason, risk, replaces, changed });
}

function buildRow(
  deps: Deps,
  { plan, policy, input }: Admitted["call"],
  row: Invocation,
  { digest, parts }: Coverage,
  now: number,
  fields: Pick<Approval, "brief" | "reason" | "risk" | "replaces" | "changed">,
): NewApproval {
  const timeout_ms = plan.bound.binding.policy.approval_timeout_ms ?? deps.host.approval_timeout_ms;
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
    digest,
    ...fields,
    may_cover: listAnswerCoverages({ plan, policy, input }, fields.risk, row.session_id !== null),
    status: "pending",
    response: null,
    feedback: null,
    answered_by: null,
    durable: timeout_ms > APPROVAL_TIMEOUT_MS,
    requested_at: new Date(now).toISOString(),
    expires_at: new Date(now + timeout_ms).toISOString(),
    resolved_at: null,
    covers: parts,
  };
}

function truncate(text: string): string {
  return text.length <= BRIEF_CHARS ? text : `${text.slice(0, BRIEF_CHARS - 1)}…`;
}
