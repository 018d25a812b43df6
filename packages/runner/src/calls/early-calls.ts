/**
 * Calls that arrive before the self-test of the sandbox has finished. They wait for its result, with their timeout
 * running, and can be cancelled meanwhile; then they run as usual.
 */
import { BackplaneError } from "@backplane/contract";
import type { Clock, RunRequest } from "@backplane/ports";

export class EarlyCalls<Outcome> {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, { cancelled: "user" | "shutdown" | null }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `run` with the remaining time of the request, or `refuse` if the call was cancelled while it waited. */
  async wait(
    request: RunRequest,
    self_test: Promise<void>,
    run: (request: RunRequest) => Promise<Outcome>,
    refuse: (error: BackplaneError) => Outcome,
  ): Promise<Outcome> {
    const entry: { cancelled: "user" | "shutdown" | null } = { cancelled: null };
    this.#waiting.set(request.invocation_id, entry);
    const arrived_at = this.#clock.monotonic();
    await self_test;
    this.#waiting.delete(request.invocation_id);
    if (entry.cancelled !== null) {
      return refuse(new BackplaneError(entry.cancelled === "user" ? "cancelled" : "gateway_stopping"));
    }
    const remaining_ms = request.timeout_ms - (this.#clock.monotonic() - arrived_at);
    return await run({ ...request, timeout_ms: Math.max(1, remaining_ms) });
  }

  /** False when no such call is waiting. */
  cancel(invocation_id: string, reason: "user" | "shutdown"): boolean {
    const entry = this.#waiting.get(invocation_id);
    if (entry !== undefined) entry.cancelled ??= reason;
    return entry !== undefined;
  }
}
