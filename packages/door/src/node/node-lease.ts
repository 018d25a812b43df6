/**
 * This gateway's lease in the store. Other gateways take over its work once the lease has expired in the store. The
 * gateway therefore also tracks the lease on its own monotonic clock, from the time before each renewal was sent, so
 * the lease expires here first. If no other gateway can use the store (SQLite), the lease is always held.
 *
 * During an outage of the store every lease may expire while its gateway is alive. A gateway therefore takes over the
 * work of others only after it has reached the store for the length of a lease without a gap; by then live gateways
 * have renewed theirs.
 */

import { BackplaneError } from "@backplane/contract";
import type { KernelDeps, Timer } from "@backplane/ports";
import { sleep } from "./wake.ts";

type LeaseDeps = Pick<KernelDeps, "clock" | "log" | "node_id"> & {
  store: Pick<KernelDeps["store"], "leases" | "shared">;
  host: Pick<KernelDeps["host"], "recovery">;
};

/** The clocks of two machines do not run at the same rate. */
const CLOCK_RATE_MARGIN = 0.1;
const RETRY_MS = 500;

export class NodeLease {
  readonly #deps: LeaseDeps;
  readonly #name: string;
  readonly #ttl: number;
  readonly #lapse_listeners: (() => void)[] = [];
  #expires_at = Number.NEGATIVE_INFINITY;
  #lapses = 0;
  /** The time since which every renewal has succeeded; null after a failed renewal. */
  #in_contact_since: number | null = null;
  #timer: Timer | null = null;
  #stopped = true;

  constructor(deps: LeaseDeps) {
    this.#deps = deps;
    this.#name = `node/${deps.node_id}`;
    this.#ttl = deps.host.recovery.node_ttl_ms;
  }

  /** Throws `store.unavailable` if the lease cannot be acquired. */
  async start(): Promise<void> {
    this.#stopped = false;
    await this.renew();
    if (this.#deps.store.shared) this.#scheduleRenewal(this.#ttl / 3);
  }

  async stop(): Promise<void> {
    const was_started = !this.#stopped;
    this.#stopped = true;
    this.#timer?.stop();
    if (was_started) await this.#deps.store.leases.release(this.#name, this.#deps.node_id);
  }

  /** Whether calls may be started. */
  isHeld(): boolean {
    return !this.#deps.store.shared || this.#deps.clock.monotonic() < this.#expires_at;
  }

  /**
   * How often the lease was acquired after it had expired, including the first time. Another gateway may own rows that
   * were written before the latest acquisition.
   */
  get lapses(): number {
    return this.#lapses;
  }

  mayTakeOver(): boolean {
    if (!this.#deps.store.shared) return true;
    return (
      this.isHeld() && this.#in_contact_since !== null && this.#now() - this.#in_contact_since >= this.#ttl
    );
  }

  /**
   * Calls the listener whenever `lapses` increases: other gateways may have taken over work that was in flight here.
   */
  onLapsed(listener: () => void): void {
    this.#lapse_listeners.push(listener);
  }

  /** Resolves when the lease is held; throws `store.unavailable` if it is not held within `max_wait_ms`. */
  async confirm(max_wait_ms: number, signal: AbortSignal = NEVER): Promise<void> {
    const end = this.#now() + max_wait_ms;
    while (!this.isHeld()) {
      const remaining_ms = end - this.#now();
      if (signal.aborted || remaining_ms <= 0) {
        throw new BackplaneError("store.unavailable", "The gateway could not renew its lease.");
      }
      await sleep(this.#deps.clock, Math.min(RETRY_MS, remaining_ms), signal);
    }
  }

  async renew(): Promise<void> {
    const { store, node_id, clock } = this.#deps;
    const requested_at = this.#now();
    try {
      await this.#withTimeout(store.leases.acquire(this.#name, node_id, clock.now(), this.#ttl));
    } catch (error) {
      this.#in_contact_since = null;
      throw error;
    }
    const is_late = requested_at >= this.#expires_at;
    this.#expires_at = requested_at + this.#ttl * (1 - CLOCK_RATE_MARGIN);
    if (is_late || this.#in_contact_since === null) this.#in_contact_since = this.#now();
    if (!is_late) return;
    this.#lapses++;
    for (const listener of this.#lapse_listeners) listener();
  }

  /** Rejects if `work` takes too long, so that a hanging connection does not prevent the next renewal. */
  #withTimeout<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const onTimeout = () =>
        reject(new BackplaneError("store.unavailable", "The store did not respond in time."));
      const timer = this.#deps.clock.after(Math.max(this.#ttl / 3, RETRY_MS), onTimeout);
      work.then(resolve, reject).finally(() => timer.stop());
    });
  }

  #scheduleRenewal(ms: number): void {
    if (this.#stopped) return;
    this.#timer = this.#deps.clock.after(ms, () => {
      this.renew().then(
        () => this.#scheduleRenewal(this.#ttl / 3),
        (error: unknown) => {
          this.#deps.log.warn({ err: error }, "could not renew the lease of this gateway; retrying");
          this.#scheduleRenewal(Math.min(RETRY_MS, this.#ttl / 3));
        },
      );
    });
  }

  #now(): number {
    return this.#deps.clock.monotonic();
  }
}

const NEVER = new AbortController().signal;
