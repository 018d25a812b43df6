/**
 * Assigns refused connections to calls. Calls of one process share its egress, so a refusal goes to every call in
 * flight, marked as shared if there are several. A refusal between calls goes to the next call, so that the first
 * call sees what was refused during the start. After the first call such a refusal may belong to an earlier call, so it
 * is marked as shared as well.
 */
import { REDACTED } from "@backplane/contract";
import type { Logger } from "@backplane/ports";
import { addDistinct, type Refusal } from "../egress/destinations/refusals.ts";
import { GATEWAY_TOKEN, refusalRedactor } from "../secrets/redact.ts";
import type { LaunchSubject } from "./breaker.ts";
import type { ActiveCall } from "./worker.ts";

/** Limits the refusals kept for the next call, and those logged per call. */
const MAX_EARLY = 64;

export class WorkerRefusals {
  readonly #calls: readonly ActiveCall[];
  readonly #secrets: readonly string[];
  readonly #subject: LaunchSubject;
  readonly #log: Logger;
  readonly #early: Refusal[] = [];
  #logged = 0;
  #served = false;

  constructor(calls: readonly ActiveCall[], secrets: readonly string[], subject: LaunchSubject, log: Logger) {
    this.#calls = calls;
    this.#secrets = secrets;
    this.#subject = subject;
    this.#log = log;
  }

  add(refusal: Refusal): void {
    for (const call of this.#calls) call.refused(refusal, this.#calls.length > 1);
    if (this.#calls.length === 0) addDistinct(this.#early, refusal, MAX_EARLY);
    // A process that retries in a loop must not fill the log.
    if (++this.#logged > MAX_EARLY) return;
    const { binding_id, package_id } = this.#subject;
    const redacted = refusalRedactor(this.#secrets).json({ ...refusal });
    const host = redacted.host.replace(GATEWAY_TOKEN, REDACTED);
    this.#log.info(
      { binding_id, package_id, host, port: redacted.port, reason: redacted.reason },
      "egress refused",
    );
  }

  /** The refusals since the last call ended, or since the start of a process that served none. */
  get early(): readonly Refusal[] {
    return this.#early;
  }

  /** Called when a call starts: assigns the early refusals to it. */
  assignEarly(call: ActiveCall): void {
    this.#logged = 0;
    for (const refusal of this.#early.splice(0)) call.refused(refusal, this.#served);
    this.#served = true;
  }
}
