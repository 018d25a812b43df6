/**
 * Circuit breaker for plugins that fail before their handshake. Per pool key and package digest it allows at most
 * three launches without a success in five minutes, including pending ones. A new binding generation or package
 * digest is a new key, and a success clears the failures, so a fixed plugin recovers without a restart.
 */
import { BackplaneError } from "@backplane/contract";
import type { Clock, RunnerHealth } from "@backplane/ports";

const MAX_LAUNCHES = 3;
const WINDOW_MS = 5 * 60_000;
const MAX_RECORDS = 4_096;

export interface LaunchSubject {
  pool_key: string;
  binding_id: string;
  package_id: string;
  digest: string;
}

export type LaunchDecision =
  | { kind: "launch" }
  /** Other launches are pending; check again when one of them has settled. */
  | { kind: "wait"; settled: Promise<void> }
  | { kind: "held_back"; failures: number; retry_at: number; last_error: string };

interface LaunchHistory {
  subject: LaunchSubject;
  proven: boolean;
  pending: number;
  /** Failed launches, oldest first: monotonic time, and wall-clock time for messages. */
  failures: { at: number; wall: number }[];
  last_error: string;
  waiters: (() => void)[];
}

export class Breaker {
  readonly #clock: Clock;
  readonly #records = new Map<string, LaunchHistory>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** After `launch`, exactly one of recordSuccess, recordFailure and recordAbandoned must follow. */
  checkLaunch(subject: LaunchSubject): LaunchDecision {
    const key = keyOf(subject);
    let record = this.#records.get(key);
    if (record === undefined) {
      record = { subject, proven: false, pending: 0, failures: [], last_error: "", waiters: [] };
      this.#records.set(key, record);
    }
    this.#expire(record);
    if (!record.proven && record.failures.length + record.pending >= MAX_LAUNCHES) {
      const waiting = record.waiters;
      if (record.pending > 0) {
        return { kind: "wait", settled: new Promise((resolve) => waiting.push(resolve)) };
      }
      return { kind: "held_back", ...this.#describeHold(record) };
    }
    record.pending++;
    return { kind: "launch" };
  }

  /** Waits until a launch is allowed. Throws crash_loop. */
  async waitUntilAllowed(subject: LaunchSubject): Promise<void> {
    for (;;) {
      const decision = this.checkLaunch(subject);
      if (decision.kind === "launch") return;
      if (decision.kind === "wait") {
        await decision.settled;
        continue;
      }
      const retry_at = new Date(decision.retry_at).toISOString();
      const { failures, last_error } = decision;
      throw new BackplaneError(
        "crash_loop",
        `The plugin failed at launch ${failures} times in five minutes and is held back until ${retry_at}. Last error: ${last_error}`,
        { details: { retry_at, failures, last_error } },
      );
    }
  }

  recordSuccess(subject: LaunchSubject): void {
    this.#settle(subject, (record) => {
      record.proven = true;
      record.failures.length = 0;
    });
  }

  recordFailure(subject: LaunchSubject, message: string): void {
    this.#settle(subject, (record) => {
      record.proven = false;
      record.failures.push({ at: this.#clock.monotonic(), wall: this.#clock.now() });
      record.last_error = message;
    });
  }

  /** The gateway abandoned the launch, so it does not count against the plugin. */
  recordAbandoned(subject: LaunchSubject): void {
    this.#settle(subject, () => {});
  }

  /** Drops the history of old generations of a binding. */
  forget(binding_id: string, keep_pool_key?: string): void {
    for (const [key, { subject, pending }] of this.#records) {
      if (subject.binding_id !== binding_id || subject.pool_key === keep_pool_key) continue;
      if (pending === 0) this.#records.delete(key);
    }
  }

  getLastFailure(subject: LaunchSubject): string | null {
    const record = this.#records.get(keyOf(subject));
    return record === undefined || record.failures.length === 0 ? null : record.last_error;
  }

  listHeldBack(): RunnerHealth["held_back"] {
    const list: RunnerHealth["held_back"] = [];
    for (const record of this.#records.values()) {
      this.#expire(record);
      if (record.proven || record.failures.length < MAX_LAUNCHES) continue;
      const { pool_key, binding_id, package_id } = record.subject;
      list.push({ pool_key, binding_id, package_id, ...this.#describeHold(record) });
    }
    return list;
  }

  #describeHold(record: LaunchHistory): { failures: number; retry_at: number; last_error: string } {
    const deciding_failure = record.failures[record.failures.length - MAX_LAUNCHES]!;
    return {
      failures: record.failures.length,
      retry_at: deciding_failure.wall + WINDOW_MS,
      last_error: record.last_error,
    };
  }

  #expire(record: LaunchHistory): void {
    const oldest = this.#clock.monotonic() - WINDOW_MS;
    while (record.failures.length > 0 && record.failures[0]!.at <= oldest) record.failures.shift();
  }

  /** The history of a healthy key is only kept to allow many concurrent launches, so it can be dropped. */
  #prune(): void {
    for (const [key, record] of this.#records) {
      this.#expire(record);
      if (record.pending === 0 && record.failures.length === 0) this.#records.delete(key);
    }
  }

  #settle(subject: LaunchSubject, change: (record: LaunchHistory) => void): void {
    const record = this.#records.get(keyOf(subject));
    if (record === undefined) return;
    record.pending--;
    change(record);
    for (const wake of record.waiters.splice(0)) wake();
    if (this.#records.size > MAX_RECORDS) this.#prune();
  }
}

function keyOf(subject: LaunchSubject): string {
  return `${subject.digest} ${subject.pool_key}`;
}
