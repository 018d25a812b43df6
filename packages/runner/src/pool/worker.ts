/**
 * One process of the pool, with the calls on it. A worker is unused when nobody is on it and nobody waits for it to
 * become ready; a pooled one that is ready and unused is idle, and only such a one is ever in the way.
 */

import type { EgressSession } from "../egress/create-egress.ts";
import type { Refusal } from "../egress/destinations/refusals.ts";
import type { Counterpart } from "../processes/plugin-instance.ts";
import type { Deadline } from "../time/deadlines.ts";
import type { LaunchSubject } from "./breaker.ts";
import type { WorkerRefusals } from "./worker-refusals.ts";

/** What a call must offer to be told of broken rules. */
export interface Tenant {
  /** The id of its request. */
  readonly id: string;
  violations: number;
  refused(refusal: Refusal, shared: boolean): void;
  /** Where it stands among the calls of its worker; the worker's own. */
  place: number;
}

/** What a worker is made of; the rest it begins with. */
export interface WorkerParts {
  process: Counterpart;
  subject: LaunchSubject;
  key: string;
  pooled: boolean;
  resident: boolean;
  calls: Tenant[];
  recent_secrets: string[];
  refusals: WorkerRefusals;
  idle_since: number;
  /** Throws when the files that its process runs from were changed. */
  check: () => Promise<void>;
}

export class Worker {
  readonly process: Counterpart;
  readonly subject: LaunchSubject;
  /** What its process is found by: the pool key, and the secrets that it was born with. */
  readonly key: string;
  readonly pooled: boolean;
  /** A server that lives on, and works between calls too. */
  readonly resident: boolean;
  /** Calls in flight, in no order. */
  readonly calls: Tenant[];
  /** Calls that wait for the process to become ready. */
  waiting = 0;
  idle_since: number;
  idle_check: Deadline | null = null;
  /** Secrets that this process was given lately: any of its calls may find them on the shared stderr. */
  readonly recent_secrets: string[];
  /** Connections that it was refused, on their way to its calls. */
  readonly refusals: WorkerRefusals;
  /** Once its process has one. */
  #way_out: EgressSession | null = null;
  /** Gives its place in the line for a slot up; null: it stands in none. */
  leave_line: (() => void) | null = null;
  /** After its process is gone and what it had is given back. */
  over: Promise<void>;
  /** Of one that was launched ahead of its call: the installed files are looked at once more. */
  verified: Promise<unknown> | null = null;
  /** When its files were last looked at; null: not since its process is ready. */
  checked_at: number | null = null;
  readonly check: () => Promise<void>;

  constructor(parts: WorkerParts) {
    this.process = parts.process;
    this.subject = parts.subject;
    this.key = parts.key;
    this.pooled = parts.pooled;
    this.resident = parts.resident;
    this.calls = parts.calls;
    this.idle_since = parts.idle_since;
    this.recent_secrets = parts.recent_secrets;
    this.refusals = parts.refusals;
    this.check = parts.check;
    this.over = parts.process.gone;
  }

  get unused(): boolean {
    return this.calls.length === 0 && this.waiting === 0;
  }

  get idle(): boolean {
    return this.pooled && this.process.state === "ready" && this.unused;
  }

  /** Before its call and after it, a process reaches nothing. */
  get held(): boolean {
    return !this.resident && this.unused;
  }

  /** It was started ahead of a call, and might have gone further had there been one. */
  get ahead(): boolean {
    return this.#way_out !== null && this.held;
  }

  leadOut(session: EgressSession): void {
    this.#way_out = session;
    this.#gate();
  }

  /** A call will come; or it will not, after all. */
  await(more: 1 | -1): void {
    this.waiting += more;
    this.#gate();
  }

  enter(call: Tenant): void {
    const { calls } = this;
    call.place = calls.length;
    calls.push(call);
    this.#way_out?.renew();
    this.refusals.joined(call);
    this.#gate();
  }

  /** The last takes the place of who goes: no call is looked for. True: nobody is left. */
  exit(call: Tenant): boolean {
    const { calls } = this;
    if (calls[call.place] !== call) return false;
    const last = calls.pop()!;
    if (last !== call) {
      calls[call.place] = last;
      last.place = call.place;
    }
    this.#gate();
    return calls.length === 0;
  }

  #gate(): void {
    this.#way_out?.hold(this.held);
  }

  /** A rule was broken. Without an id nobody can tell by which call, so it counts once and not for every call. */
  violated(request_id: string | undefined): void {
    const call = request_id === undefined ? this.calls[0] : this.calls.find(({ id }) => id === request_id);
    if (call !== undefined) call.violations++;
  }
}
