/**
 * Recovers the calls of nodes that are gone (inv.effect-class). The row was written before dispatch, so it holds all
 * that is known. A call that may run twice runs again under the same execution id; any other call ends with
 * outcome_unknown. A recoverable tool of a kernel plugin continues an interrupted call, so its calls run again too. The
 * outbox retries the delivery of a hook, so the row of the interrupted attempt is only ended.
 */

import {
  type Approval,
  BackplaneError,
  codeOf,
  type ErrorDetails,
  INVOCATION_LIMITS,
  toBackplaneError,
} from "@backplane/contract";
import type { InvocationRow } from "@backplane/ports";
import { admit } from "../admission/admit.ts";
import { endApproval } from "../approval/pending-approvals.ts";
import { addAttempt, attemptStartOf } from "../calls/earlier-attempts.ts";
import { failedWith } from "../calls/ending.ts";
import type { LiveCall } from "../calls/live-calls.ts";
import { mintDelegation } from "../keys/mint-delegation.ts";
import { reopen } from "../open/open.ts";
import type { Door } from "./door.ts";
import { complete } from "./invoke.ts";
import { resumeRecorded, resumeWaiting } from "./record.ts";
import { isDelivery, isRepeatable } from "./run.ts";
import { releaseToOtherNode, settle } from "./settle.ts";

const BATCH_ROWS = 100;

/**
 * Recovers the calls that this node may take over. Resolves with their number when each of them is settled, running
 * again or released to another node.
 */
export async function recoverCalls(door: Door): Promise<number> {
  const { store, node_id, clock } = door.deps;
  let recovered = 0;
  const skipped = await door.missing_files.findCallsForOtherNodes("running", (row) => mayRunAgain(door, row));
  for (;;) {
    const rows = await store.invocations.claimOrphans(node_id, clock.now(), BATCH_ROWS, skipped);
    for (const row of rows) await recoverCall(door, row);
    recovered += rows.length;
    if (rows.length < BATCH_ROWS) return recovered;
  }
}

async function recoverCall(door: Door, row: InvocationRow): Promise<void> {
  const live = door.live.add(row);
  live.dispatched = true;
  if (isDelivery(row)) {
    return await endWithUnknownOutcome(door, live, "The hook delivery is retried under the same id.");
  }
  const is_resumable = isResumable(row);
  if (!mayRunAgain(door, row)) {
    return await endWithUnknownOutcome(door, live, `A ${row.effect_class} call is never run twice.`);
  }
  if (!is_resumable && row.retry_count >= door.deps.host.retry.max_attempts) {
    return await endWithUnknownOutcome(door, live, "The call had no attempts left.");
  }
  try {
    const events = await door.deps.store.invocations.listEvents(row.id, 0, INVOCATION_LIMITS.events_kept + 1);
    live.last_seq = events.at(-1)?.seq ?? 0;
    const call = await reopen(door, row);
    if (await door.missing_files.isMissing(row)) return await endWithoutFiles(door, live);
    if (call.plan.bound.package.digest !== row.package_digest) {
      throw new BackplaneError("outcome_unknown", "The package of the call has changed since then.");
    }
    const verdict = admit(call, door.state);
    if (verdict.verdict === "refused") {
      const details = { ...verdict.details, refused: verdict.code };
      throw new BackplaneError("outcome_unknown", verdict.message, { details });
    }
    const now = door.deps.clock.now();
    row.retry_count++;
    row.earlier_attempts = addAttempt(row, {
      started_at: attemptStartOf(row),
      ended_at: null,
      retried_at: now,
      reason: "recovery",
      error: { code: "outcome_unknown", message: "The gateway stopped during this attempt." },
    });
    live.remaining_ms = computeRemainingTime(row, now);
    // A process that survived the crash may still hold the old token, so the call gets a new one.
    const minted = mintDelegation(door.deps, row, verdict.grant, now, live.remaining_ms);
    const renewed = minted === null ? {} : { delegation: minted.delegation };
    if (!(await door.deps.store.invocations.recordRetry(row, renewed))) {
      return void releaseToOtherNode(door, live);
    }
    void complete(door, resumeRecorded(door, verdict, live, minted?.token ?? null));
  } catch (error) {
    if (codeOf(error) === undefined)
      door.deps.log.error({ err: error, invocation_id: row.id }, "could not recover the invocation");
    const { message, details } = toBackplaneError(error);
    await endWithUnknownOutcome(door, live, message, details);
  }
}

/** Whether the call runs again instead of only being ended. */
function mayRunAgain(door: Door, row: InvocationRow): boolean {
  if (isDelivery(row)) return false;
  return isResumable(row) || isRepeatable(row.effect_class) || isRecoverable(door, row);
}

/**
 * A harness continues from its last checkpoint. Its execution limits how often it may start without writing a new
 * checkpoint.
 */
function isResumable(row: InvocationRow): boolean {
  return row.export_kind === "harness" && row.within !== null;
}

function isRecoverable({ bindings }: Door, { binding_id }: InvocationRow): boolean {
  return bindings.tool(binding_id)?.spec.recoverable === true;
}

async function endWithUnknownOutcome(
  door: Door,
  live: LiveCall,
  reason: string,
  details?: ErrorDetails,
): Promise<void> {
  const message = `The gateway stopped while this call was running. ${reason}`;
  await settle(door, live, failedWith("outcome_unknown", message, { details }));
}

async function endWithoutFiles(door: Door, live: LiveCall): Promise<void> {
  const { package_id, package_version, package_digest } = live.row;
  const name = `${package_id} ${package_version}`;
  const message = `The gateway that ran this call stopped, and the files of ${name} are neither in the database nor on any running gateway.`;
  const details = {
    package_id,
    package_version,
    digest: package_digest,
    fix: `Install ${name} again on any gateway that shares the database, then call again.`,
  };
  await settle(door, live, failedWith("package.files_missing", message, { details }));
}

/** A call that may run again gets this much time even if its gateway was down for longer than its deadline. */
const MIN_TIME_MS = 5_000;

/**
 * The time that is left to a call whose gateway died. A monotonic clock does not outlive its process, so the
 * elapsed time is measured by the wall clock. The wall clock may have jumped, so the result is bounded on both sides.
 */
export function computeRemainingTime(
  row: Pick<InvocationRow, "timeout_ms" | "started_at" | "created_at">,
  now: number,
): number {
  const elapsed = now - Date.parse(row.started_at ?? row.created_at);
  const minimum = Math.min(MIN_TIME_MS, row.timeout_ms);
  return Math.min(Math.max(row.timeout_ms - elapsed, minimum), row.timeout_ms);
}

/**
 * Resumes the calls that await approval. Durable approvals keep waiting for the time they have left; other
 * pending ones expired with their gateway. An answer that was given before the crash is valid, because nothing has run
 * yet.
 */
export async function resumeApprovals(door: Door): Promise<number> {
  const { store, node_id, clock } = door.deps;
  let resumed = 0;
  const skipped = await door.missing_files.findCallsForOtherNodes("waiting_approval", () => true);
  for (;;) {
    const waiting = await store.invocations.claimWaiting(node_id, clock.now(), BATCH_ROWS, skipped);
    for (const { row, approval } of waiting) await resumeApproval(door, row, approval);
    resumed += waiting.length;
    if (waiting.length < BATCH_ROWS) return resumed;
  }
}

async function resumeApproval(door: Door, row: InvocationRow, approval: Approval): Promise<void> {
  const live = door.live.add(row);
  const has_expired = approval.status === "pending" && !approval.durable;
  if (has_expired && (await endApproval(door.deps, approval, { status: "expired" }))) {
    const message = "The gateway stopped before anybody answered the approval.";
    await settle(door, live, failedWith("approval.expired", message));
    return;
  }
  void complete(door, resumeWaiting(live, approval));
}
