/** The question as a row: bound by its digest to everything that decides what would happen (`coverage.ts`). */

import { APPROVAL_TIMEOUT_MS, type Approval, canonicalJson, type Invocation } from "@backplane/contract";
import type { AskedApproval, KernelDeps } from "@backplane/ports";
import type { Coverage } from "../calls/coverage.ts";
import type { Admitted } from "../policy/admit.ts";

const BRIEF = 80;

type Deps = Pick<KernelDeps, "ids" | "host">;

export function newApproval(
  deps: Deps,
  { ask, call }: Admitted,
  row: Invocation,
  coverage: Coverage,
  now: number,
): AskedApproval | null {
  if (ask === null) return null;
  const words = {
    brief: call.turn?.brief == null ? brief(row) : cut(call.turn.brief),
    reason: ask.reason,
    risk: ask.risk,
  };
  return question(deps, call, row, coverage, now, { ...words, replaces: null, changed: [] });
}

/** The same question anew, because what it covered is not what would run now. */
export function followUpApproval(
  deps: Deps,
  { call }: Admitted,
  row: Invocation,
  coverage: Coverage,
  now: number,
  before: Approval,
  changed: string[],
): AskedApproval {
  const { brief: told, reason, risk, id: replaces } = before;
  return question(deps, call, row, coverage, now, { brief: told, reason, risk, replaces, changed });
}

function question(
  deps: Deps,
  { plan }: Admitted["call"],
  row: Invocation,
  { digest, parts }: Coverage,
  now: number,
  words: Pick<Approval, "brief" | "reason" | "risk" | "replaces" | "changed">,
): AskedApproval {
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
    ...words,
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

function brief(row: Invocation): string {
  return cut(`${row.export_id} ${canonicalJson(row.input)}`);
}

function cut(text: string): string {
  return text.length <= BRIEF ? text : `${text.slice(0, BRIEF - 1)}…`;
}
