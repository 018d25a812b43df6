/**
 * Writes the row of a call once, together with its admission (docs/decisions/0001): a call that may run is on disk
 * before anything is dispatched, and a refused call is on disk as failed before its error is thrown, unless the gateway
 * is stopping.
 */

import {
  type Approval,
  BackplaneError,
  compareRisk,
  type Invocation,
  type InvocationError,
  type JsonObject,
  tolerates,
} from "@backplane/contract";
import type {
  InvocationRow,
  KernelDeps,
  NewApproval,
  NewDelegation,
  NewEvent,
  OpenRecords,
} from "@backplane/ports";
import { turnOf } from "@backplane/session";
import type { Admitted, RefusedCall } from "../admission/admit.ts";
import { readCoverage, toolDigestOf } from "../approval/coverage.ts";
import { buildApproval } from "../approval/new-approval.ts";
import { toSessionCall } from "../approval/session-grants.ts";
import { callIdsOf, resolveCallIds, traceOf } from "../calls/call-ids.ts";
import type { SlotReservation } from "../calls/concurrency.ts";
import { buildToolResultBlock } from "../calls/ending.ts";
import type { Coverage, LiveCall } from "../calls/live-calls.ts";
import { mintDelegation } from "../keys/mint-delegation.ts";
import type { Opened } from "../open/open.ts";
import type { Door } from "./door.ts";

declare const recorded: unique symbol;

/** The next step of a recorded call: run, or wait for a person's approval. */
export type NextStep =
  | { kind: "run"; admitted: Admitted; token: string | null; reservation: SlotReservation | null }
  | { kind: "ask"; approval: Approval };

class RecordedCall {
  declare readonly [recorded]: true;
  readonly live: LiveCall;
  readonly next: NextStep;

  constructor(live: LiveCall, next: NextStep) {
    this.live = live;
    this.next = next;
  }
}

export type Recorded = RecordedCall;

export function record(door: Door, verdict: Admitted | RefusedCall): Promise<Recorded> {
  return verdict.verdict === "refused" ? recordRefusal(door, verdict) : recordCall(door, verdict);
}

/** Resumes a call whose row is on disk and that runs again. */
export function resumeRecorded(
  door: Door,
  admitted: Admitted,
  live: LiveCall,
  token: string | null,
): Recorded {
  live.checked_at = admitted.call.checked_at;
  const reservation = reserveSlot(door, admitted);
  return new RecordedCall(live, { kind: "run", admitted, token, reservation });
}

/** Resumes a call whose row is on disk and that still awaits approval. */
export function resumeWaiting(live: LiveCall, approval: Approval): Recorded {
  return new RecordedCall(live, { kind: "ask", approval });
}

async function recordCall(door: Door, admitted: Admitted): Promise<Recorded> {
  const { deps, live: calls } = door;
  const { call } = admitted;
  const now = deps.clock.now();
  const row = buildNewRow(door, call, now);
  row.grant = admitted.grant;
  row.class = admitted.grant.class;
  row.allowed_by = admitted.allowed_by;
  // A call with a delegated token may make calls of its own, which join its trace.
  if (admitted.grant.gateway_api_scopes.length > 0) row.shares_trace = true;
  const approval = admitted.ask === null ? null : await requestApproval(door, admitted, row, now);
  const open_records: OpenRecords = { records: NO_RECORDS };
  // A refused call claims no Idempotency-Key, because a repeat of the request may be admitted.
  if (call.once !== null) open_records.once = call.once;
  let reservation: SlotReservation | null = null;
  let minted: { token: string; delegation: NewDelegation } | null = null;
  if (call.execution !== null) {
    const { write } = call.execution;
    open_records.execution = approval === null || "resumes" in write ? write : { ...write, starts: 0 };
  }
  if (approval !== null) {
    row.status = "waiting_approval";
    row.approval_id = approval.id;
    open_records.approval = approval;
    open_records.records = { events: [buildApprovalEvent(door, approval, row, now)] };
  } else {
    reservation = reserveSlot(door, admitted);
    if (reservation === null) row.started_at = row.created_at;
    minted = mintDelegation(deps, row, admitted.grant, now);
    if (minted !== null) open_records.delegation = minted.delegation;
  }
  const live = calls.add(row);
  live.checked_at = call.checked_at;
  live.execution = call.execution;
  live.starts = 1;
  if (call.delivery?.job !== undefined) {
    open_records.job = call.delivery.job;
    live.job = call.delivery.job;
    live.onEnded = call.delivery.onEnded ?? null;
  }
  try {
    if (call.harness_run !== null) await call.harness_run.write(row, open_records);
    else if (call.turn === null) await deps.store.invocations.open(row, open_records);
    else await door.turn_tape.open(row, open_records, call.turn);
  } catch (error) {
    reservation?.release();
    calls.drop(live);
    throw error;
  }
  if (approval !== null) return new RecordedCall(live, { kind: "ask", approval });
  return new RecordedCall(live, { kind: "run", admitted, token: minted?.token ?? null, reservation });
}

/** Queues the call for a slot of its binding; null for an export without max_concurrency. */
export function reserveSlot(door: Door, { call }: Admitted): SlotReservation | null {
  const max = call.plan.export.max_concurrency;
  return max === undefined ? null : door.concurrency.reserve(call.plan.concurrency_key, max);
}

/** Null if the call is covered by an earlier approval for the session; `allowed_by` is then the id of that grant. */
async function requestApproval(
  door: Door,
  admitted: Admitted,
  row: InvocationRow,
  now: number,
): Promise<NewApproval | null> {
  const coverage = await readCoverage(door.deps, admitted);
  row.allowed_by = await findSessionGrant(door, admitted, row, coverage);
  return row.allowed_by === null ? buildApproval(door.deps, admitted, row, coverage, now) : null;
}

async function findSessionGrant(
  { session_grants, authority }: Door,
  { ask, call }: Admitted,
  row: InvocationRow,
  { digest, parts }: Coverage,
): Promise<string | null> {
  const session = session_grants.size === 0 ? null : toSessionCall(row, call.root.actor);
  if (session === null || ask === null) return null;
  const asks_every_time = call.plan.bound.binding.policy.approval === "always";
  const session_grant =
    session_grants.find(session, digest) ??
    (asks_every_time ? null : session_grants.find(session, toolDigestOf(parts)));
  if (session_grant === null || compareRisk(ask.risk, session_grant.grant.max_risk) > 0) return null;
  if (!tolerates(call.policy.document.lasting_approvals, ask.risk)) return null;
  // An approval for the session ends with the key of the approver.
  return (await authority.findRevocation(session_grant.approver)) === null ? session_grant.grant.id : null;
}

async function recordRefusal(door: Door, refused: RefusedCall): Promise<never> {
  const { deps } = door;
  const { call, code, message, details, fix } = refused;
  const now = deps.clock.now();
  const row = buildNewRow(door, call, now);
  const recorded_details = fix === undefined ? details : { ...details, fix };
  const error: InvocationError = { code, message, details: recorded_details as JsonObject };
  row.status = "failed";
  row.error = error;
  row.ended_at = row.created_at;
  row.tool_result = buildToolResultBlock(row, { status: "failed", result: null, error, stderr_tail: null });
  if (code !== "gateway_stopping") {
    const open_records: OpenRecords = { records: { events: [buildSettledEvent(deps, row, now)] } };
    if (call.delivery?.job !== undefined) open_records.job = call.delivery.job;
    if (call.turn === null) await deps.store.invocations.open(row, open_records);
    else await door.turn_tape.open(row, open_records, call.turn);
    door.call_counts.add(row);
  }
  throw new BackplaneError(code, message, {
    details: { ...details, invocation_id: row.id },
    ...(fix === undefined ? {} : { fix }),
  });
}

const NO_RECORDS = {};

function buildNewRow(door: Door, call: Opened, now: number): InvocationRow {
  const { plan, body, caller } = call;
  const { binding, package: pack } = plan.bound;
  const ids = resolveCallIds(caller, body);
  return {
    id: call.id,
    export_kind: plan.export.kind,
    export_id: plan.export.id,
    binding_id: binding.binding_id,
    binding_generation: binding.generation,
    package_id: pack.package_id,
    package_version: pack.version,
    package_digest: pack.digest,
    class: plan.class,
    effect_class: plan.effect_class,
    status: "running",
    org_id: caller.scope.org_id,
    project_id: caller.scope.project_id,
    session_id: ids.session_id ?? call.execution?.target.session_id ?? null,
    chain_id: ids.chain_id ?? call.execution?.target.chain_id ?? null,
    run_id: call.harness_run?.run_id ?? ids.run_id ?? null,
    trace_id: ids.trace_id ?? traceOf(call.id),
    execution_id: call.execution_id,
    retry_count: call.delivery === null ? 0 : call.delivery.attempt - 1,
    grant: null,
    input: call.input,
    result: null,
    tool_result: null,
    error: null,
    approval_id: null,
    allowed_by: null,
    timeout_ms: call.timeout_ms,
    violations: 0,
    stderr_tail: null,
    egress: null,
    requested_by: caller.actor,
    created_at: new Date(now).toISOString(),
    started_at: null,
    ended_at: null,
    node_id: door.deps.node_id,
    fence: 0,
    delivery_id: call.delivery?.delivery_id ?? caller.delegation?.delivery_id ?? null,
    turn: call.turn === null ? null : turnOf(call.turn),
    depth: call.depth,
    role: caller.role,
    channel: caller.channel ?? null,
    within: call.execution?.id ?? caller.delegation?.execution_id ?? null,
    harness_run: call.harness_run === null ? null : { workspace: call.harness_run.workspace },
    shares_trace: ids.trace_id !== undefined,
  };
}

export function buildApprovalEvent(
  door: Door,
  approval: Approval,
  row: InvocationRow,
  now: number,
): NewEvent {
  return {
    id: door.deps.ids.next("event"),
    type: "approval.requested",
    scope: { org_id: approval.org_id, project_id: approval.project_id },
    occurred_at: now,
    subject: { kind: "approval", id: approval.id },
    summary: { invocation_id: approval.invocation_id, tool: approval.tool, risk: approval.risk },
    ids: callIdsOf(row),
    from_hook: row.delivery_id !== null,
  };
}

/** The event of a settled call. `from_hook` keeps calls that hooks cause from triggering further hooks. */
export function buildSettledEvent(
  deps: Pick<KernelDeps, "ids">,
  row: Pick<
    InvocationRow,
    | "id"
    | "org_id"
    | "project_id"
    | "session_id"
    | "chain_id"
    | "run_id"
    | "trace_id"
    | "export_kind"
    | "export_id"
    | "binding_id"
    | "package_id"
    | "package_version"
    | "status"
    | "error"
    | "delivery_id"
  >,
  now: number,
): NewEvent {
  const summary: JsonObject = {
    status: row.status,
    export_kind: row.export_kind,
    export_id: row.export_id,
    binding_id: row.binding_id,
    package_id: row.package_id,
    package_version: row.package_version,
  };
  if (row.session_id !== null) summary.session_id = row.session_id;
  if (row.error !== null) summary.error_code = row.error.code;
  const event: NewEvent = {
    id: deps.ids.next("event"),
    type: "invocation.settled",
    scope: { org_id: row.org_id, project_id: row.project_id },
    occurred_at: now,
    subject: { kind: "invocation", id: row.id },
    summary,
    ids: callIdsOf(row),
  };
  if (row.delivery_id !== null) event.from_hook = true;
  return event;
}

/**
 * The row as callers see it. Copied field by field, because leaving out the internal fields with a rest pattern takes
 * five times as long (benchmark http.invoke).
 */
export function toPublicInvocation(row: InvocationRow): Invocation {
  const invocation: Invocation = {
    id: row.id,
    export_kind: row.export_kind,
    export_id: row.export_id,
    binding_id: row.binding_id,
    binding_generation: row.binding_generation,
    package_id: row.package_id,
    package_version: row.package_version,
    package_digest: row.package_digest,
    class: row.class,
    effect_class: row.effect_class,
    status: row.status,
    org_id: row.org_id,
    project_id: row.project_id,
    session_id: row.session_id,
    chain_id: row.chain_id,
    run_id: row.run_id,
    trace_id: row.trace_id,
    execution_id: row.execution_id,
    retry_count: row.retry_count,
    grant: row.grant,
    input: row.input,
    result: row.result,
    tool_result: row.tool_result,
    error: row.error,
    approval_id: row.approval_id,
    allowed_by: row.allowed_by,
    timeout_ms: row.timeout_ms,
    violations: row.violations,
    stderr_tail: row.stderr_tail,
    egress: row.egress,
    requested_by: row.requested_by,
    created_at: row.created_at,
    started_at: row.started_at,
    ended_at: row.ended_at,
  };
  if (row.fallback_from !== undefined) invocation.fallback_from = row.fallback_from;
  if (row.earlier_attempts !== undefined) invocation.earlier_attempts = row.earlier_attempts;
  return invocation;
}
