/**
 * Limits how many deliveries of a lane (the jobs of one binding), and of all lanes, run at the same time. Calls to a
 * quick hook are opened in advance: a call whose row is on disk waits here for a slot, and starts as soon as another
 * call to the hook ends.
 */
import type { Clock, Job } from "@backplane/ports";
import type { SlotWait } from "../calls/requested-delivery.ts";

/** `opening`: until the hook starts; `active`: until it ends; `ended`: until the settlement is written. */
export interface OpenedDelivery {
  job: Job;
  stage: "opening" | "active" | "ended";
  /** On the monotonic clock; null until the hook starts. */
  started_at: number | null;
  /** Whether the call was withdrawn while it waited for a slot. */
  withdrawn: boolean;
}

/** How many deliveries of a lane have not ended. */
interface LaneUse {
  /** Deliveries that are opening or active. */
  in_progress: number;
  active: number;
}

const UNUSED: Readonly<LaneUse> = { in_progress: 0, active: 0 };

/**
 * A hook whose last call took less than this is quick. For a slower hook the time of a commit hardly matters, and its
 * calls would wait for a slot while their attempt already counts.
 */
const QUICK_HOOK_MS = 50;

export class DeliverySlots {
  readonly #clock: Clock;
  readonly #concurrency: number;
  /** Updated at every change, because every start reads the counts (benchmark hooks.delivery). */
  readonly #use = new Map<string, LaneUse>();
  #in_progress = 0;
  #active = 0;
  /** Deliveries whose calls are on disk and that wait for a slot, in the order of their rows. */
  readonly #waiting = new Map<OpenedDelivery, (may_start: boolean) => void>();
  /** The lanes of quick hooks. */
  readonly #quick = new Set<string>();
  /** How many deliveries of a lane may run at the same time, as last read. */
  readonly #limits = new Map<string, number>();

  constructor(clock: Clock, concurrency: number) {
    this.#clock = clock;
    this.#concurrency = concurrency;
  }

  /** The lanes with deliveries that have not ended. */
  lanes(): Iterable<string> {
    return this.#use.keys();
  }

  setLimit(lane: string, limit: number): void {
    this.#limits.set(lane, limit);
  }

  limitOf(lane: string): number {
    return this.#limits.get(lane) ?? 1;
  }

  countInProgress(lane: string): number {
    return this.#useOf(lane).in_progress;
  }

  /** Whether fewer deliveries are opening or active than may run at the same time. */
  hasRoom(): boolean {
    return this.#in_progress < this.#concurrency;
  }

  /**
   * Whether another call may be opened: up to the limits, or up to twice the limit of a quick hook. A call is not
   * opened in advance while other lanes wait for the shared limit, because those lanes come first. Neither is a retry
   * or the only attempt of a job, because a crash would use up that attempt.
   */
  mayOpen(lane: string, next: Job | undefined, waiting_lanes: number): boolean {
    const limit = this.limitOf(lane);
    const { in_progress } = this.#useOf(lane);
    if (in_progress < limit && this.#in_progress < this.#concurrency) return true;
    if (!this.#quick.has(lane) || in_progress >= limit * 2) return false;
    if (next === undefined || next.attempt > 1 || next.max_attempts === 1) return false;
    return waiting_lanes === 1 && this.#in_progress < this.#concurrency * 2;
  }

  open(delivery: OpenedDelivery): void {
    this.#count(delivery.job.lane, 1, 0);
  }

  /** Returns null if the hook may start now. */
  acquire(delivery: OpenedDelivery): SlotWait | null {
    if (this.#waiting.size === 0 && this.#mayStart(delivery.job.lane)) {
      this.#activate(delivery);
      return null;
    }
    const { promise: acquired, resolve } = Promise.withResolvers<boolean>();
    this.#waiting.set(delivery, resolve);
    this.#fill();
    return { acquired, interrupt: () => this.#refuse(delivery) };
  }

  /** Withdraws the calls of the lane that wait for a slot. */
  withdrawWaiting(lane: string): void {
    for (const delivery of this.#waiting.keys()) {
      if (delivery.job.lane !== lane) continue;
      delivery.withdrawn = true;
      this.#refuse(delivery);
    }
  }

  /** Called when the hook has ended, or when the delivery ends without a call to the hook. */
  end(delivery: OpenedDelivery): void {
    const { job, stage, started_at } = delivery;
    if (stage === "ended") return;
    delivery.stage = "ended";
    this.#waiting.delete(delivery);
    this.#count(job.lane, -1, stage === "active" ? -1 : 0);
    if (started_at !== null) {
      if (this.#clock.monotonic() - started_at < QUICK_HOOK_MS) this.#quick.add(job.lane);
      else this.#quick.delete(job.lane);
    }
    this.#fill();
  }

  #useOf(lane: string): Readonly<LaneUse> {
    return this.#use.get(lane) ?? UNUSED;
  }

  #count(lane: string, in_progress: number, active: number): void {
    this.#in_progress += in_progress;
    this.#active += active;
    let use = this.#use.get(lane);
    if (use === undefined) {
      use = { in_progress: 0, active: 0 };
      this.#use.set(lane, use);
    }
    use.in_progress += in_progress;
    use.active += active;
    if (use.in_progress === 0) this.#use.delete(lane);
  }

  #mayStart(lane: string): boolean {
    if (this.#active >= this.#concurrency) return false;
    return this.#useOf(lane).active < this.limitOf(lane);
  }

  #activate(delivery: OpenedDelivery): void {
    delivery.stage = "active";
    delivery.started_at = this.#clock.monotonic();
    this.#count(delivery.job.lane, 0, 1);
  }

  #refuse(delivery: OpenedDelivery): void {
    const resolve = this.#waiting.get(delivery);
    this.#waiting.delete(delivery);
    resolve?.(false);
  }

  #fill(): void {
    for (const [delivery, resolve] of this.#waiting) {
      if (this.#active >= this.#concurrency) return;
      if (!this.#mayStart(delivery.job.lane)) continue;
      this.#waiting.delete(delivery);
      this.#activate(delivery);
      resolve(true);
    }
  }
}
