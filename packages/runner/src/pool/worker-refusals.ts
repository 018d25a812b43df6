/**
 * Whose a refused connection is. The calls of one process share its way out, and nobody can see which of them asked: it
 * goes to every call in flight, marked as shared when there are several. What happens between calls goes to the next
 * one, so that a process that is refused while it starts tells its first call; after that it may as well be a call's
 * before, and is marked too.
 */
import type { Logger } from "@backplane/ports";
import type { Refusal } from "../egress/destinations/refusals.ts";
import { DELEGATION_TOKEN, REDACTED, refusalRedactor } from "../secrets/redact.ts";
import type { LaunchSubject } from "./breaker.ts";
import type { Tenant } from "./worker.ts";

/** Kept for a call that is yet to come. */
const ROOM = 64;

export class WorkerRefusals {
  readonly #calls: readonly Tenant[];
  readonly #secrets: readonly string[];
  readonly #subject: LaunchSubject;
  readonly #log: Logger;
  readonly #early: Refusal[] = [];
  #told = 0;
  #served = false;

  constructor(calls: readonly Tenant[], secrets: readonly string[], subject: LaunchSubject, log: Logger) {
    this.#calls = calls;
    this.#secrets = secrets;
    this.#subject = subject;
    this.#log = log;
  }

  add(refusal: Refusal): void {
    for (const call of this.#calls) call.refused(refusal, this.#calls.length > 1);
    if (this.#calls.length === 0 && this.#early.length < ROOM) this.#early.push(refusal);
    // A process that asks in a loop must not fill the log.
    if (++this.#told > ROOM) return;
    const { binding_id, package_id } = this.#subject;
    const clean = refusalRedactor(this.#secrets).json({ ...refusal });
    const host = clean.host.replace(DELEGATION_TOKEN, REDACTED);
    this.#log.info(
      { binding_id, package_id, host, port: clean.port, reason: clean.reason },
      "egress refused",
    );
  }

  joined(call: Tenant): void {
    this.#told = 0;
    for (const refusal of this.#early.splice(0)) call.refused(refusal, this.#served);
    this.#served = true;
  }
}
