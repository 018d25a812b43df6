/**
 * Ends a call once: terminal record, revoked token and outbox event in one transaction. While the store is unavailable
 * the outcome is kept in memory, and the write is retried until it succeeds.
 */

import { codeOf, type Invocation, isTerminal } from "@backplane/contract";
import type { InvocationRow, Settlement } from "@backplane/ports";
import { buildToolResultBlock, type CallEnding, failedWith } from "../calls/ending.ts";
import type { LiveCall } from "../calls/live-calls.ts";
import { finalErrorOf, retryReasonOf } from "../outbox/delivery-outcome.ts";
import type { Door } from "./door.ts";
import { buildSettledEvent, toPublicInvocation } from "./record.ts";

const INITIAL_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5_000;
const POLL_MS = 500;

export async function settle(door: Door, live: LiveCall, ending: CallEnding): Promise<Invocation> {
  const { deps } = door;
  const { row } = live;
  live.stage = "settling";
  live.interrupt = null;
  live.event_log?.close();
  live.progress?.close();
  let final = buildFinalRow(live, ending, deps.clock.now());
  let was_written = false;
  for (let pause = INITIAL_PAUSE_MS; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
    // A turn or a gateway that stops settles calls that do not end in time, so another ending may have come first.
    if (door.live.get(row.id) !== live) return await live.settled;
    try {
      const written = writeEnd(door, live, final);
      // Writes that the listener starts now share the commit.
      live.onEnded?.();
      was_written = await written;
      break;
    } catch (error) {
      deps.log.error(
        { err: error, invocation_id: row.id },
        "could not write the end of the invocation; retrying",
      );
      if (codeOf(error) !== "store.unavailable") {
        // The store would reject this record again, so the next attempt writes a record without the result.
        const failed = failedWith("internal", "The store rejected the result of the call.");
        final = buildFinalRow(live, failed, deps.clock.now());
      }
      await new Promise<void>((resolve) => void deps.clock.after(pause, resolve));
    }
  }
  if (was_written) door.call_counts.add(final);
  else final = await waitForOtherNode(door, final);
  const invocation = toPublicInvocation(final);
  door.live.drop(live);
  live.finish(invocation);
  return invocation;
}

/** Releases a call that another node continues, or that this node resumes at its next start. */
export async function releaseToOtherNode(door: Door, live: LiveCall): Promise<void> {
  door.harness_tape.release(live.row);
  const row = await waitForOtherNode(door, live.row);
  door.live.drop(live);
  live.finish(toPublicInvocation(row));
}

function writeEnd(door: Door, { row, job, progress }: LiveCall, final: InvocationRow): Promise<boolean> {
  const { deps } = door;
  const end: Settlement = {
    status: final.status as Settlement["status"],
    result: final.result,
    tool_result: final.tool_result,
    error: final.error,
    retry_count: final.retry_count,
    violations: final.violations,
    stderr_tail: final.stderr_tail,
    egress: final.egress,
    started_at: final.started_at,
    ended_at: final.ended_at!,
  };
  const now = deps.clock.now();
  const records = { events: [buildSettledEvent(deps, final, now)] };
  const { invocations } = deps.store;
  if (row.within !== null && row.export_kind === "harness")
    return door.harness_tape.settle(final, end, records);
  if (row.turn === null) {
    const delivered =
      job === null || retryReasonOf(final) !== null ? undefined : { ...job, now, error: finalErrorOf(final) };
    return invocations.settle(row.id, row.fence, end, records, delivered);
  }
  return door.turn_tape.settle(final, progress?.summary, (tape) =>
    tape === null
      ? invocations.settle(row.id, row.fence, end, records)
      : invocations.settleWithTape(row.id, row.fence, end, records, tape),
  );
}

function buildFinalRow(
  { row, egress, violations }: LiveCall,
  ending: CallEnding,
  now: number,
): InvocationRow {
  const final = { ...row };
  final.status = ending.status;
  final.result = ending.result;
  final.tool_result = buildToolResultBlock(row, ending);
  final.error = ending.error;
  final.retry_count = Math.max(row.retry_count, ending.retry_count);
  final.violations = ending.violations + violations;
  final.stderr_tail = ending.stderr_tail;
  final.egress = egress;
  final.started_at = ending.started_at ?? row.started_at;
  final.ended_at = new Date(now).toISOString();
  return final;
}

/** Waits until the node that owns the row now has ended the call. A gateway that is stopping does not wait. */
async function waitForOtherNode(door: Door, last_known: InvocationRow): Promise<InvocationRow> {
  for (;;) {
    const row = await readRow(door, last_known);
    if (door.state.stopping || (row !== null && isTerminal(row.status))) return row ?? last_known;
    await new Promise<void>((resolve) => void door.deps.clock.after(POLL_MS, resolve));
  }
}

async function readRow(door: Door, row: InvocationRow): Promise<InvocationRow | null> {
  try {
    return await door.deps.store.invocations.get(row, row.id);
  } catch (error) {
    door.deps.log.warn({ err: error, invocation_id: row.id }, "could not read the invocation; retrying");
    return null;
  }
}
