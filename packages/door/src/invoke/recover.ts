/**
 * Calls whose node is gone (inv.effect-class). The row was written before dispatch, so it says all there is to
 * know: what may run twice is run again under the same execution id; what may not ends outcome_unknown. A
 * delivered hook is tried again by its job, so its old row only ends.
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
import { mintDelegation } from "@backplane/registry";
import { resolveApproval } from "../approval/pending.ts";
import { timeLeft } from "../calls/deadline.ts";
import { failedWith } from "../calls/ending.ts";
import type { LiveCall } from "../calls/live.ts";
import { isDelivery, repeatable } from "../calls/retry.ts";
import { reopen } from "../open/open.ts";
import { admit } from "../policy/admit.ts";
import type { Door } from "./door.ts";
import { carry } from "./invoke.ts";
import { recordedBefore, waitingBefore } from "./record.ts";
import { letGo, settle } from "./settle.ts";

const BATCH = 100;

/** Resolves when every orphan is settled or on its way again. */
export async function recoverOrphans(door: Door): Promise<number> {
  const { store, node_id, clock } = door.deps;
  let recovered = 0;
  for (;;) {
    const rows = await store.invocations.claimOrphans(node_id, clock.now(), BATCH);
    for (const row of rows) await recoverOne(door, row);
    recovered += rows.length;
    if (rows.length < BATCH) return recovered;
  }
}

async function recoverOne(door: Door, row: InvocationRow): Promise<void> {
  const live = door.live.add(row);
  if (isDelivery(row)) return await unknown(door, live, "its delivery is tried again under the same id");
  if (!repeatable(row.effect_class)) {
    return await unknown(door, live, `a ${row.effect_class} call is never run twice`);
  }
  if (row.retry_count >= door.deps.host.retry.max_attempts) {
    return await unknown(door, live, "it was tried again too often already");
  }
  try {
    const events = await door.deps.store.invocations.events(row.id, 0, INVOCATION_LIMITS.events_kept + 1);
    live.last_seq = events.at(-1)?.seq ?? 0;
    const call = await reopen(door, row);
    if (call.plan.bound.package.digest !== row.package_digest) {
      throw new BackplaneError("outcome_unknown", "the package was changed since");
    }
    const verdict = admit(call, door.around);
    if (verdict.verdict === "refused") {
      const details = { ...verdict.details, refused: verdict.code };
      throw new BackplaneError("outcome_unknown", verdict.message, { details });
    }
    row.retry_count++;
    const now = door.deps.clock.now();
    live.left_ms = timeLeft(row, now);
    // The token of the life before is known to a process that may still be alive: it ends, and a new one begins.
    const minted = mintDelegation(door.deps, row, verdict.grant, now, live.left_ms);
    const renewed = minted === null ? {} : { delegation: minted.delegation };
    if (!(await door.deps.store.invocations.retried(row.id, row.fence, row.retry_count, renewed))) {
      return void letGo(door, live);
    }
    void carry(door, recordedBefore(door, verdict, live, minted?.token ?? null));
  } catch (error) {
    if (codeOf(error) === undefined)
      door.deps.log.error({ err: error, invocation_id: row.id }, "recovery broke");
    const { message, details } = toBackplaneError(error);
    await unknown(door, live, message, details);
  }
}

async function unknown(door: Door, live: LiveCall, why: string, details?: ErrorDetails): Promise<void> {
  const message = `the gateway stopped while this call was running; ${why}`;
  await settle(door, live, failedWith("outcome_unknown", message, { details }));
}

/**
 * Durable questions wait on with the time they have left; the others died with their gateway, unless a person
 * had answered: what was said is kept to, since nothing has run yet.
 */
export async function rearmApprovals(door: Door): Promise<number> {
  const { store, node_id, clock } = door.deps;
  let taken = 0;
  for (;;) {
    const waiting = await store.invocations.claimWaiting(node_id, clock.now(), BATCH);
    for (const { row, approval } of waiting) await rearmOne(door, row, approval);
    taken += waiting.length;
    if (waiting.length < BATCH) return taken;
  }
}

async function rearmOne(door: Door, row: InvocationRow, approval: Approval): Promise<void> {
  const live = door.live.add(row);
  const dead = approval.status === "pending" && !approval.durable;
  if (dead && (await resolveApproval(door.deps, approval, { status: "expired" }))) {
    await settle(door, live, failedWith("approval.expired", "the gateway stopped before anybody answered"));
    return;
  }
  void carry(door, waitingBefore(live, approval));
}
