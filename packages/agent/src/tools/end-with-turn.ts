/**
 * Ends the calls of a turn together with the turn. The turn waits for their ends, so that on the tape the
 * result of each call precedes the last message of the turn. A call that ignores its stop signal is recorded
 * as cancelled, and its later answer is discarded.
 */
import { cancelledBy, type Door, failedWith, type LiveCall, settle, stopCall } from "@backplane/door";
import type { Turn } from "../loop/turn.ts";

/** Half of the 200 ms within which an interrupt has to end a turn (loop.order). */
const GRACE_MS = 100;

const DID_NOT_STOP =
  "the turn ended while the call was running; the call did not stop in time, so its outcome is unknown";

/** Resolves when the call has ended, or when the turn does not have to wait for it. */
export function endWithTurn(door: Door, turn: Turn, live: LiveCall): Promise<void> {
  return new Promise((resolve) => {
    let stopTimer = () => {};
    const stop = () => {
      // The shutdown of the gateway ends every call itself, with its own timeout and reason.
      if (turn.stopped === "shutdown") return;
      // Another gateway holds the turn and its approvals, so this gateway must not answer or withdraw them.
      if (turn.stopped === "lost" && live.stage === "approval") {
        if (live.row.approval_id !== null) door.pending.resolve(live.row.approval_id, { kind: "detached" });
        return resolve();
      }
      // An approval outlives a turn that failed. The answer to it resumes the conversation.
      if (turn.stopped === null && live.stage === "approval") return resolve();
      const reason = turn.revocation;
      stopCall(door, live, reason ?? "user");
      const timer = door.deps.clock.after(GRACE_MS, () => {
        const ending =
          reason === null
            ? failedWith("cancelled", DID_NOT_STOP, { status: "cancelled" })
            : cancelledBy(reason);
        void settle(door, live, ending);
      });
      stopTimer = () => timer.stop();
    };
    live.onSettled(() => {
      stopTimer();
      turn.signal.removeEventListener("abort", stop);
      resolve();
    });
    if (turn.signal.aborted) stop();
    else turn.signal.addEventListener("abort", stop, { once: true });
  });
}

/**
 * Ties the calls that an earlier gateway began for this turn, and that this gateway has recovered, to the
 * turn.
 */
export function adoptCalls(door: Door, turn: Turn): void {
  for (const live of door.live.all()) {
    if (live.row.turn === null || live.row.run_id !== turn.run.id) continue;
    void turn.waitFor(endWithTurn(door, turn, live));
  }
}
