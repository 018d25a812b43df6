/**
 * Calls that come before the sandbox has been tried, in the first moments of a runner. They wait for it, their time
 * runs, and they can be cancelled; then they go the usual way.
 */
import { BackplaneError } from "@backplane/contract";
import type { Clock, RunOrder } from "@backplane/ports";

export class EarlyCalls<Outcome> {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, { cancelled: "user" | "shutdown" | null }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `run` with what is left of the order's time, or `refuse` when it was cancelled meanwhile. */
  async wait(
    order: RunOrder,
    tried: Promise<void>,
    run: (order: RunOrder) => Promise<Outcome>,
    refuse: (error: BackplaneError) => Outcome,
  ): Promise<Outcome> {
    const entry: { cancelled: "user" | "shutdown" | null } = { cancelled: null };
    this.#waiting.set(order.invocation_id, entry);
    const since = this.#clock.monotonic();
    await tried;
    this.#waiting.delete(order.invocation_id);
    if (entry.cancelled !== null) {
      return refuse(new BackplaneError(entry.cancelled === "user" ? "cancelled" : "gateway_stopping"));
    }
    const left = order.timeout_ms - (this.#clock.monotonic() - since);
    return await run({ ...order, timeout_ms: Math.max(1, left) });
  }

  /** False: no such call waits here. */
  cancel(invocation_id: string, reason: "user" | "shutdown"): boolean {
    const entry = this.#waiting.get(invocation_id);
    if (entry !== undefined) entry.cancelled ??= reason;
    return entry !== undefined;
  }
}
