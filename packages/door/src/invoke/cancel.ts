/**
 * Cancels a call, whatever its stage: awaiting approval, queued, between two attempts, in the runner, or on another
 * node. The heartbeat of the other node reads the request from a job.
 */

import { BackplaneError, isTerminal } from "@backplane/contract";
import type { InvocationRow, NewJob } from "@backplane/ports";
import type { LiveCall, StopCause } from "../calls/live-calls.ts";
import type { Door } from "./door.ts";

/** Resolves when the cancellation has been requested, not when the call has ended. */
export async function cancel(door: Door, row: InvocationRow): Promise<void> {
  const live = door.live.get(row.id);
  if (live !== undefined) {
    stopCall(door, live, "user");
    return;
  }
  if (isTerminal(row.status)) throw new BackplaneError("invocation.settled");
  const { store, ids, clock } = door.deps;
  const job: NewJob = {
    id: ids.next("job"),
    queue: cancelQueueOf(row.node_id),
    group: null,
    payload: { invocation_id: row.id },
    max_attempts: 3,
  };
  await store.jobs.enqueue([job], clock.now());
}

export function stopCall(door: Door, live: LiveCall, reason: StopCause): void {
  live.stopped ??= reason;
  if (live.interrupt !== null) live.interrupt();
  else if (live.stage === "running") {
    door.deps.runner.cancel(live.row.id, reason === "shutdown" ? reason : "user");
  }
}

/** Cancels the calls that other nodes asked this node to cancel. */
export async function applyCancelRequests(door: Door): Promise<void> {
  const { store, clock, node_id } = door.deps;
  const jobs = await store.jobs.claim(cancelQueueOf(node_id), node_id, clock.now(), 30_000, 100);
  for (const job of jobs) {
    const { invocation_id } = job.payload as { invocation_id: string };
    const live = door.live.get(invocation_id);
    if (live !== undefined) stopCall(door, live, "user");
    await store.jobs.complete(job.id, job.fence, clock.now());
  }
}

function cancelQueueOf(node_id: string): string {
  return `cancel/${node_id}`;
}
