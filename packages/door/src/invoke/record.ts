/**
 * Writes the row, once, together with its admission (docs/decisions/0001): a call that may run is on disk
 * before anything is dispatched, a refused one is on disk as failed before its error is thrown.
 */

import {
  type Approval,
  BackplaneError,
  type Invocation,
  type InvocationError,
  type JsonObject,
} from "@backplane/contract";
import type { AskedApproval, InvocationRow, NewDelegation, NewEvent, OpenWith } from "@backplane/ports";
import { mintDelegation } from "@backplane/registry";
import { turnOf } from "@backplane/session";
import { readCoverage } from "../approval/coverage.ts";
import { newApproval } from "../approval/new-approval.ts";
import { sessionCallOf } from "../approval/session-grants.ts";
import type { Place } from "../calls/concurrency.ts";
import { toolResultBlock } from "../calls/ending.ts";
import type { LiveCall } from "../calls/live.ts";
import type { Opened } from "../open/open.ts";
import type { Admitted, Refused } from "../policy/admit.ts";
import type { Door } from "./door.ts";
import { settledEvent } from "./settled-event.ts";

declare const recorded: unique symbol;

/** How a recorded call goes on: straight to the runner, or first to a person. */
export type Onward =
  | { kind: "run"; admitted: Admitted; token: string | null; place: Place | null }
  | { kind: "ask"; approval: Approval };

class RecordedCall {
  declare readonly [recorded]: true;
  readonly live: LiveCall;
  readonly onward: Onward;

  constructor(live: LiveCall, onward: Onward) {
    this.live = live;
    this.onward = onward;
  }
}

export type Recorded = RecordedCall;

export function record(door: Door, verdict: Admitted | Refused): Promise<Recorded> {
  return verdict.verdict === "refused" ? recordRefusal(door, verdict) : recordCall(door, verdict);
}

/** A row that is on disk already and runs again. */
export function recordedBefore(
  door: Door,
  admitted: Admitted,
  live: LiveCall,
  token: string | null,
): Recorded {
  live.checked_at = admitted.call.checked_at;
  const max = admitted.call.plan.export.max_concurrency;
  const place = max === undefined ? null : door.gates.enter(admitted.call.plan.gate, max);
  return new RecordedCall(live, { kind: "run", admitted, token, place });
}

/** A row that is on disk already and still waits for its answer. */
export function waitingBefore(live: LiveCall, approval: Approval): Recorded {
  return new RecordedCall(live, { kind: "ask", approval });
}

async function recordCall(door: Door, admitted: Admitted): Promise<Recorded> {
  const { deps, live: calls } = door;
  const { call } = admitted;
  const now = deps.clock.now();
  const row = newRow(door, call, now);
  row.grant = admitted.grant;
  row.class = admitted.grant.class;
  const approval = admitted.ask === null ? null : await questionFor(door, admitted, row, now);
  const also: OpenWith = { facts: NO_FACTS };
  // A refusal takes no key: the same request may be admitted later.
  if (call.once !== null) also.once = call.once;
  let place: Place | null = null;
  let minted: { token: string; delegation: NewDelegation } | null = null;
  if (approval !== null) {
    row.status = "waiting_approval";
    row.approval_id = approval.id;
    also.approval = approval;
    also.facts = { events: [approvalRequested(door, approval, row, now)] };
  } else {
    const max = call.plan.export.max_concurrency;
    if (max === undefined) row.started_at = row.created_at;
    else place = door.gates.enter(call.plan.gate, max);
    minted = mintDelegation(deps, row, admitted.grant, now);
    if (minted !== null) also.delegation = minted.delegation;
  }
  const live = calls.add(row);
  live.checked_at = call.checked_at;
  try {
    if (call.turn === null) await deps.store.invocations.open(row, also);
    else await door.turns.open(row, also, call.turn);
  } catch (error) {
    place?.leave();
    calls.drop(live);
    throw error;
  }
  if (approval !== null) return new RecordedCall(live, { kind: "ask", approval });
  return new RecordedCall(live, { kind: "run", admitted, token: minted?.token ?? null, place });
}

/** Null where the same was approved for the session. */
async function questionFor(
  door: Door,
  admitted: Admitted,
  row: InvocationRow,
  now: number,
): Promise<AskedApproval | null> {
  const coverage = await readCoverage(door.deps, admitted);
  if (await approvedForSession(door, admitted, row, coverage.digest)) return null;
  return newApproval(door.deps, admitted, row, coverage, now);
}

async function approvedForSession(
  { grants, authority }: Door,
  { call }: Admitted,
  row: InvocationRow,
  digest: string,
): Promise<boolean> {
  const session = grants.size === 0 ? null : sessionCallOf(row, call.standing.root);
  const approver = session === null ? null : grants.approverOf(session, digest);
  // A yes is worth as much as the key that said it.
  return approver !== null && (await authority.revocationOf(approver)) === null;
}

async function recordRefusal(door: Door, refused: Refused): Promise<never> {
  const { deps } = door;
  const { call, code, message, details, fix } = refused;
  const now = deps.clock.now();
  const row = newRow(door, call, now);
  const kept = fix === undefined ? details : { ...details, fix };
  const error: InvocationError = { code, message, details: kept as JsonObject };
  row.status = "failed";
  row.error = error;
  row.ended_at = row.created_at;
  row.tool_result = toolResultBlock(row, { status: "failed", result: null, error });
  if (code !== "gateway_stopping") {
    const also = { facts: { events: [settledEvent(deps, row, now)] } };
    if (call.turn === null) await deps.store.invocations.open(row, also);
    else await door.turns.open(row, also, call.turn);
  }
  throw new BackplaneError(code, message, {
    details: { ...details, invocation_id: row.id },
    ...(fix === undefined ? {} : { fix }),
  });
}

const NO_FACTS = {};

function newRow(door: Door, call: Opened, now: number): InvocationRow {
  const { plan, body, caller } = call;
  const { binding, package: pack } = plan.bound;
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
    session_id: body.session_id ?? null,
    chain_id: body.chain_id ?? null,
    run_id: body.run_id ?? null,
    trace_id: body.trace_id ?? door.deps.ids.next("trace"),
    execution_id: call.execution_id,
    retry_count: 0,
    grant: null,
    input: call.input,
    result: null,
    tool_result: null,
    error: null,
    approval_id: null,
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
  };
}

export function approvalRequested(door: Door, approval: Approval, row: InvocationRow, now: number): NewEvent {
  return {
    id: door.deps.ids.next("event"),
    type: "approval.requested",
    scope: { org_id: approval.org_id, project_id: approval.project_id },
    occurred_at: now,
    subject: { kind: "approval", id: approval.id },
    summary: { invocation_id: approval.invocation_id, tool: approval.tool, risk: approval.risk },
    from_hook: row.delivery_id !== null,
  };
}

/** The row as callers see it. Field by field: a copy that leaves fields out costs five times as much. */
export function publicInvocation(row: InvocationRow): Invocation {
  return {
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
    timeout_ms: row.timeout_ms,
    violations: row.violations,
    stderr_tail: row.stderr_tail,
    egress: row.egress,
    requested_by: row.requested_by,
    created_at: row.created_at,
    started_at: row.started_at,
    ended_at: row.ended_at,
  };
}
