/**
 * Ends a call once: terminal record, revoked token and outbox event in one transaction. A store that is away
 * is tried until it takes the record; the outcome is kept in the meantime.
 */

import { codeOf, type Invocation, isTerminal } from "@backplane/contract";
import type { InvocationRow, Settlement } from "@backplane/ports";
import { type Ending, failedWith, toolResultBlock } from "../calls/ending.ts";
import type { LiveCall } from "../calls/live.ts";
import type { Door } from "./door.ts";
import { publicInvocation } from "./record.ts";
import { settledEvent } from "./settled-event.ts";

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
const ELSEWHERE_MS = 500;

export async function settle(door: Door, live: LiveCall, ending: Ending): Promise<Invocation> {
  const { deps } = door;
  const { row } = live;
  live.stage = "settling";
  live.interrupt = null;
  live.tape?.close();
  let final = finalRow(live, ending, deps.clock.now());
  let won = false;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    // Another ending came first: a turn or a gateway that stops does not wait for a call that will not.
    if (door.live.get(row.id) !== live) return await live.settled;
    try {
      won = await write(door, row, final);
      break;
    } catch (error) {
      deps.log.error({ err: error, invocation_id: row.id }, "a call could not be recorded; trying again");
      if (codeOf(error) !== "store.unavailable") {
        // Nothing that time would heal: the record itself is refused, so a plainer one is tried.
        final = finalRow(live, failedWith("internal", "the result could not be recorded"), deps.clock.now());
      }
      await new Promise<void>((resolve) => void deps.clock.after(pause, resolve));
    }
  }
  if (!won) final = await endedElsewhere(door, final);
  const invocation = publicInvocation(final);
  door.live.drop(live);
  live.finish(invocation);
  return invocation;
}

/** The call goes on elsewhere, or at the next start. */
export async function letGo(door: Door, live: LiveCall): Promise<void> {
  const row = await endedElsewhere(door, live.row);
  door.live.drop(live);
  live.finish(publicInvocation(row));
}

function write(door: Door, row: InvocationRow, final: InvocationRow): Promise<boolean> {
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
  const facts = { events: [settledEvent(deps, final, now)] };
  const { invocations } = deps.store;
  if (row.turn === null) return invocations.settle(row.id, row.fence, end, facts);
  return door.turns.settle(final, (tape) =>
    tape === null
      ? invocations.settle(row.id, row.fence, end, facts)
      : invocations.settleWithTape(row.id, row.fence, end, facts, tape),
  );
}

function finalRow({ row, egress }: LiveCall, ending: Ending, now: number): InvocationRow {
  const final = { ...row };
  final.status = ending.status;
  final.result = ending.result;
  final.tool_result = toolResultBlock(row, ending);
  final.error = ending.error;
  final.retry_count = Math.max(row.retry_count, ending.retry_count);
  final.violations = ending.violations;
  final.stderr_tail = ending.stderr_tail;
  final.egress = egress;
  final.started_at = ending.started_at ?? row.started_at;
  final.ended_at = new Date(now).toISOString();
  return final;
}

/**
 * Another node holds the row now: whoever waits here waits for its end. A gateway that stops waits no longer,
 * and tells how things stand.
 */
async function endedElsewhere(door: Door, known: InvocationRow): Promise<InvocationRow> {
  for (;;) {
    const row = await stored(door, known);
    if (door.around.stopping || (row !== null && isTerminal(row.status))) return row ?? known;
    await new Promise<void>((resolve) => void door.deps.clock.after(ELSEWHERE_MS, resolve));
  }
}

async function stored(door: Door, row: InvocationRow): Promise<InvocationRow | null> {
  try {
    return await door.deps.store.invocations.get(row, row.id);
  } catch (error) {
    door.deps.log.warn({ err: error, invocation_id: row.id }, "a row could not be read");
    return null;
  }
}
