/**
 * Approval: the call needs none, or a person approved exactly this call. After the answer everything is checked again
 * from the row, because the wait may have been long. Only this file creates an `Approved`.
 */

import { type Approval, codeOf, type Grant, type MaybePromise } from "@backplane/contract";
import type { InvocationRow } from "@backplane/ports";
import type { ExportPlan } from "@backplane/registry";
import { type Admitted, admit } from "../admission/admit.ts";
import { listChangedParts, readCoverage } from "../approval/coverage.ts";
import { buildFollowUpApproval } from "../approval/new-approval.ts";
import { type ApprovalOutcome, approvalOutcomeOf } from "../approval/pending-approvals.ts";
import type { SlotReservation } from "../calls/concurrency.ts";
import { type CallEnding, cancelledBy, failedWith } from "../calls/ending.ts";
import type { Coverage, LiveCall } from "../calls/live-calls.ts";
import { mintDelegation } from "../keys/mint-delegation.ts";
import { type Opened, reopen } from "../open/open.ts";
import type { Door } from "./door.ts";
import { buildApprovalEvent, type Recorded, reserveSlot } from "./record.ts";

declare const approved: unique symbol;

class ApprovedCall {
  declare readonly [approved]: true;
  readonly is_approved = true;
  readonly live: LiveCall;
  readonly opened: Opened;
  readonly plan: ExportPlan;
  readonly grant: Grant;
  readonly pool_key: string;
  readonly attempt: number;
  readonly token: string | null;
  readonly reservation: SlotReservation | null;

  constructor(live: LiveCall, admitted: Admitted, token: string | null, reservation: SlotReservation | null) {
    this.live = live;
    this.opened = admitted.call;
    this.plan = admitted.call.plan;
    this.grant = admitted.grant;
    this.pool_key = admitted.pool_key;
    // The runner distinguishes the attempts of one call by this number.
    this.attempt = (admitted.call.delivery?.attempt ?? 1) + live.attempts_before_fallback;
    this.token = token;
    this.reservation = reservation;
  }
}

export type Approved = ApprovedCall;

export interface NotApproved {
  is_approved: false;
  /** Null when another node owns the call now, or when the call stays pending because this gateway is stopping. */
  ending: CallEnding | null;
}

/** Returns no promise for a call that needs no approval (benchmark http.invoke). */
export function approve(door: Door, recorded: Recorded): MaybePromise<Approved | NotApproved> {
  const { live, next } = recorded;
  if (next.kind === "run") return new ApprovedCall(live, next.admitted, next.token, next.reservation);
  return askUntilCurrent(door, recorded, next.approval);
}

/** Asks for approval again while the call that would run differs from the call that was approved. */
async function askUntilCurrent(
  door: Door,
  recorded: Recorded,
  first: Approval,
): Promise<Approved | NotApproved> {
  const { live } = recorded;
  for (let approval = first; ; ) {
    const outcome = await waitForAnswer(door, live, approval);
    if (outcome.kind !== "approved") return { is_approved: false, ending: toEnding(outcome, live) };
    const result = await startApproved(door, recorded, approval);
    if (!("follow_up" in result)) return result;
    approval = result.follow_up;
  }
}

async function waitForAnswer(door: Door, live: LiveCall, approval: Approval): Promise<ApprovalOutcome> {
  live.stage = "approval";
  live.interrupt = () => {
    const reason = typeof live.stopped === "object" ? live.stopped : null;
    void door.pending.close(approval.id, "cancelled", reason === null ? "interrupt" : "revoked", reason);
  };
  const pending = approval.status === "pending" ? door.pending.wait(approval) : approvalOutcomeOf(approval);
  // The call may have been cancelled before `interrupt` was set.
  if (live.stopped !== null) live.interrupt();
  const outcome = await pending;
  live.interrupt = null;
  return outcome;
}

/** Starts the call, ends it, or returns a follow-up approval because the call has changed. */
async function startApproved(
  door: Door,
  recorded: Recorded,
  approval: Approval,
): Promise<Approved | NotApproved | { follow_up: Approval }> {
  const { deps } = door;
  const { live } = recorded;
  const { row } = live;
  const wait = <T>(work: () => Promise<T>) => door.store_wait.run("an approved call", work);
  const admitted = await wait(() => admitAgain(door, recorded));
  if ("status" in admitted) return { is_approved: false, ending: admitted };
  live.checked_at = admitted.call.checked_at;
  const coverage = await wait(() => readCoverage(deps, admitted));
  if (coverage.digest !== approval.digest)
    return await requestNewApproval(door, live, admitted, coverage, approval);
  live.approved = coverage;
  const reservation = reserveSlot(door, admitted);
  const now = deps.clock.now();
  const minted = mintDelegation(deps, row, admitted.grant, now);
  const started_at = new Date(now).toISOString();
  const token_write = minted === null ? {} : { delegation: minted.delegation };
  let started = false;
  try {
    started = await wait(() => deps.store.invocations.start(row.id, row.fence, started_at, token_write));
  } finally {
    if (!started) reservation?.release();
  }
  if (!started) return { is_approved: false, ending: null };
  row.status = "running";
  row.started_at = started_at;
  return new ApprovedCall(live, admitted, minted?.token ?? null, reservation);
}

/** Replaces an approval that does not cover the call as it would run now. The follow-up lists what changed. */
async function requestNewApproval(
  door: Door,
  live: LiveCall,
  admitted: Admitted,
  coverage: Coverage,
  replaced: Approval,
): Promise<NotApproved | { follow_up: Approval }> {
  const { deps } = door;
  const { row } = live;
  const changed = listChangedParts(
    await deps.store.approvals.getCoveredDigests(row, replaced.id),
    coverage.parts,
  );
  const { plan } = admitted.call;
  const { binding, package: pack } = plan.bound;
  const next: InvocationRow = {
    ...row,
    binding_generation: binding.generation,
    package_version: pack.version,
    package_digest: pack.digest,
    grant: admitted.grant,
    class: admitted.grant.class,
    effect_class: plan.effect_class,
  };
  const now = deps.clock.now();
  const created = buildFollowUpApproval(deps, admitted, next, coverage, now, replaced, changed);
  next.approval_id = created.id;
  const { covers: _covers, ...follow_up } = created;
  const records = { events: [buildApprovalEvent(door, follow_up, next, now)] };
  if (!(await deps.store.invocations.replaceApproval(next, created, records)))
    return { is_approved: false, ending: null };
  Object.assign(row, next);
  return { follow_up };
}

/** Admits the call under the current policy and state, or returns the ending of a call that may no longer run. */
async function admitAgain(door: Door, recorded: Recorded): Promise<Admitted | CallEnding> {
  const { row } = recorded.live;
  const call = await reopen(door, row).catch((error: unknown) => {
    if (codeOf(error) === "binding.not_found") return null;
    throw error;
  });
  if (call === null) {
    const message = `The binding ${row.binding_id} was removed while the call was awaiting approval.`;
    return failedWith("approval.changed", message);
  }
  const verdict = admit(call, door.state);
  if (verdict.verdict === "admitted") return verdict;
  const { code, message, details } = verdict;
  // A revoked call ends with the same message, whichever step finds the revocation.
  if (verdict.rule === "authority") return failedWith(code, message, { details });
  return failedWith(code, `The call was approved, but is no longer admitted. ${message}`, { details });
}

function toEnding(
  outcome: Exclude<ApprovalOutcome, { kind: "approved" }>,
  live: LiveCall,
): CallEnding | null {
  switch (outcome.kind) {
    case "rejected":
      return failedWith("approval.rejected", outcome.feedback ?? "A person rejected this call.");
    case "expired":
      return failedWith("approval.expired", "The approval was not answered in time.");
    case "cancelled":
      return cancelledBy(live.stopped ?? "shutdown");
    case "detached":
      return null;
  }
}
