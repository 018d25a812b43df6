/**
 * Runs a call again with the previous version after the process of a version on trial failed. The gateway waits until
 * the trial is rolled back and then opens and admits the call again. The call therefore continues with the binding, the
 * content and the grant of the previous version, and the authority of its caller is read again. The row changes to that
 * version before the call is dispatched, and records the version that failed in `fallback_from`.
 *
 * A call runs again only if that does no harm: it has not reached the plugin's code, or both versions declare an effect
 * class that allows it to be repeated under the same key. A person approves a call to one version, so a call that was
 * approved, or that needs approval in the previous version, stays failed.
 */
import { codeOf } from "@backplane/contract";
import type { InvocationRow } from "@backplane/ports";
import type { Admitted } from "../admission/admit.ts";
import { admitWithAllowRules } from "../approval/admit-with-allow-rules.ts";
import { addAttempt, attemptStartOf } from "../calls/earlier-attempts.ts";
import { type CallEnding, cancelledBy } from "../calls/ending.ts";
import type { LiveCall } from "../calls/live-calls.ts";
import { mintDelegation } from "../keys/mint-delegation.ts";
import { reopen } from "../open/open.ts";
import { isProcessFailure } from "../trials/trial-watch.ts";
import type { Approved } from "./approve.ts";
import type { Door } from "./door.ts";
import { type Recorded, resumeRecorded } from "./record.ts";
import { isDelivery, isRepeatable } from "./run.ts";

/** The ending is null when another node owns the call now. */
type FallbackResult = { kind: "run"; recorded: Recorded } | { kind: "end"; ending: CallEnding | null };

/** `deadline` is the deadline of the call, on the monotonic clock. */
export async function fallBack(
  door: Door,
  failed: Approved,
  ending: CallEnding,
  deadline: number,
): Promise<FallbackResult> {
  const { live, plan } = failed;
  const failed_at = door.deps.clock.now();
  const rollback = door.trials.observe(plan.bound.binding, ending, live.row.id);
  const no_fallback: FallbackResult = { kind: "end", ending };
  if (rollback === null || !mayFallBack(live, ending)) return no_fallback;
  await waitForRollback(door, live, rollback, deadline);
  const retries = Math.max(live.row.retry_count, ending.retry_count);
  if (live.stopped !== null) return { kind: "end", ending: cancelledBy(live.stopped, retries) };
  const admitted = await admitPreviousVersion(door, failed);
  const remaining_ms = deadline - door.deps.clock.monotonic();
  if (admitted === null || remaining_ms <= 0) return no_fallback;
  return await recordFallback(door, failed, admitted, ending, failed_at, remaining_ms);
}

/** A delivery is repeated by the outbox, and a harness continues from a checkpoint that its own version has written. */
function mayFallBack(live: LiveCall, { status, error }: CallEnding): boolean {
  const { row } = live;
  if (status !== "failed" || !isProcessFailure(error?.code)) return false;
  if (row.export_kind === "harness" || isDelivery(row)) return false;
  if (row.approval_id !== null || live.approved !== null) return false;
  return !live.dispatched || isRepeatable(row.effect_class);
}

async function waitForRollback(
  door: Door,
  live: LiveCall,
  rollback: Promise<void>,
  deadline: number,
): Promise<void> {
  const { clock } = door.deps;
  const stopped = Promise.withResolvers<void>();
  const timer = clock.after(Math.max(0, deadline - clock.monotonic()), stopped.resolve);
  live.interrupt = stopped.resolve;
  if (live.stopped !== null) stopped.resolve();
  await Promise.race([rollback, stopped.promise]);
  timer.stop();
  live.interrupt = null;
}

/** Admits the call with the version before the trial. Null if that version may not run it. */
async function admitPreviousVersion(door: Door, { live, plan, opened }: Approved): Promise<Admitted | null> {
  const { binding } = plan.bound;
  const row: InvocationRow = { ...live.row, binding_id: binding.share_of ?? binding.binding_id };
  const call = await reopen(door, row, opened).catch((error: unknown) => {
    // For example, the binding was removed, or the previous version does not have this tool.
    if (codeOf(error) !== undefined) return null;
    throw error;
  });
  if (call === null) return null;
  const { package: pack } = call.plan.bound;
  const { trial, previous } = binding;
  if (pack.version !== trial?.from_version) return null;
  if (binding.share_of === undefined && pack.digest !== previous?.digest) return null;
  if (live.dispatched && !isRepeatable(call.plan.effect_class)) return null;
  const verdict = await admitWithAllowRules(door, call);
  return verdict.verdict === "admitted" && verdict.ask === null ? verdict : null;
}

async function recordFallback(
  door: Door,
  { live, opened }: Approved,
  admitted: Admitted,
  ending: CallEnding,
  failed_at: number,
  remaining_ms: number,
): Promise<FallbackResult> {
  const { deps } = door;
  const { row } = live;
  const { plan, caller, context } = admitted.call;
  const { binding, package: pack } = plan.bound;
  const retries = Math.max(row.retry_count, ending.retry_count);
  const next: InvocationRow = {
    ...row,
    binding_id: binding.binding_id,
    binding_generation: binding.generation,
    package_version: pack.version,
    package_digest: pack.digest,
    class: admitted.grant.class,
    effect_class: plan.effect_class,
    grant: admitted.grant,
    allowed_by: admitted.allowed_by,
    retry_count: retries + 1,
    earlier_attempts: addAttempt(row, {
      started_at: attemptStartOf(row),
      ended_at: failed_at,
      retried_at: deps.clock.now(),
      reason: "fallback",
      error: ending.error,
    }),
    fallback_from: {
      binding_id: row.binding_id,
      binding_generation: row.binding_generation,
      package_version: row.package_version,
      package_digest: row.package_digest,
      error: ending.error!,
      stderr_tail: ending.stderr_tail,
    },
  };
  const minted = mintDelegation(deps, next, admitted.grant, deps.clock.now(), remaining_ms);
  const renewed = minted === null ? {} : { delegation: minted.delegation };
  const is_owner = await door.store_wait.run(
    "a call",
    () => deps.store.invocations.recordFallback(next, renewed),
    undefined,
    remaining_ms,
  );
  if (!is_owner) return { kind: "end", ending: null };
  live.attempts_before_fallback += retries - row.retry_count + 1;
  live.remaining_ms = remaining_ms;
  live.violations += ending.violations;
  // As in `invoke`: a call that was resumed from its row has no access to the model.
  if (opened.row === null)
    live.sample = door.samplingAccess(door, live, { caller, context, bound: plan.bound });
  Object.assign(row, next);
  return { kind: "run", recorded: resumeRecorded(door, admitted, live, minted?.token ?? null) };
}
