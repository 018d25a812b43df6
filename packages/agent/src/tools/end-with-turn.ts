/**
 * A turn that ends takes its calls along and hears of their ends first, so that on the tape each call's result stands
 * before the turn's last message. A call that does not end when it is told to is recorded as cancelled without it;
 * what it still answers counts for nothing.
 */
import { cancelledBy, type Door, failedWith, type LiveCall, settle, stopCall } from "@backplane/door";
import type { Turn } from "../loop/turn.ts";

/** An interrupt ends a turn within 200 ms (loop.order). */
const GRACE_MS = 100;

const LEFT = "the turn ended; the call was told to stop and had not ended, so what it did is not known";

/** Resolves when the call has ended, or when the turn need not wait for it. */
export function endWithTurn(door: Door, turn: Turn, live: LiveCall): Promise<void> {
  return new Promise((resolve) => {
    let give_up = () => {};
    const stop = () => {
      // The gateway's own stop ends every call, in its own time and for its own reason.
      if (turn.stopped === "shutdown") return;
      // Another gateway has the turn and its questions: nothing is to be said about them here.
      if (turn.stopped === "lost" && live.stage === "approval") {
        if (live.row.approval_id !== null) door.pending.resolve(live.row.approval_id, { kind: "detached" });
        return resolve();
      }
      // A question outlives a turn that broke: whoever answers it sets the conversation going again.
      if (turn.stopped === null && live.stage === "approval") return resolve();
      const why = turn.revocation;
      stopCall(door, live, why ?? "user");
      const timer = door.deps.clock.after(GRACE_MS, () => {
        const left = why === null ? failedWith("cancelled", LEFT, { status: "cancelled" }) : cancelledBy(why);
        void settle(door, live, left);
      });
      give_up = () => timer.stop();
    };
    live.onSettled(() => {
      give_up();
      turn.signal.removeEventListener("abort", stop);
      resolve();
    });
    if (turn.signal.aborted) stop();
    else turn.signal.addEventListener("abort", stop, { once: true });
  });
}

/** The calls that an earlier gateway began for this turn, and that this one has taken up, are its own again. */
export function adoptCalls(door: Door, turn: Turn): void {
  for (const live of door.live.all()) {
    if (live.row.turn === null || live.row.run_id !== turn.run.id) continue;
    void turn.waitFor(endWithTurn(door, turn, live));
  }
}
