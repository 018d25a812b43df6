/**
 * This gateway's lease in the store. Other gateways take over its work once the lease has run out there, so it is also
 * counted here, on the monotonic clock and from before each renewal was sent: it ends here before it ends there. Where
 * nobody else uses the store (SQLite) it is always held.
 *
 * After the store was away, every lease may have run out while its gateway was alive. So a gateway takes over the work
 * of others only after it has had the store for a whole lease without a gap; by then the living have renewed theirs.
 */

import { BackplaneError } from "@backplane/contract";
import type { KernelDeps, Timer } from "@backplane/ports";
import { nextWake } from "./wake.ts";

type LeaseDeps = Pick<KernelDeps, "clock" | "log" | "node_id"> & {
  store: Pick<KernelDeps["store"], "leases" | "shared">;
  host: Pick<KernelDeps["host"], "recovery">;
};

/** Clocks of two machines do not run at the same rate. */
const MARGIN = 0.1;
const RETRY_MS = 500;

export class NodeLease {
  readonly #deps: LeaseDeps;
  readonly #name: string;
  readonly #ttl: number;
  readonly #lapsed: (() => void)[] = [];
  #until = Number.NEGATIVE_INFINITY;
  #lapses = 0;
  /** Since when the store has answered without a gap; null: it does not. */
  #contact: number | null = null;
  #timer: Timer | null = null;
  #stopped = true;

  constructor(deps: LeaseDeps) {
    this.#deps = deps;
    this.#name = `node/${deps.node_id}`;
    this.#ttl = deps.host.recovery.node_ttl_ms;
  }

  /** Throws `store.unavailable`. */
  async start(): Promise<void> {
    this.#stopped = false;
    await this.renew();
    if (this.#deps.store.shared) this.#arm(this.#ttl / 3);
  }

  async stop(): Promise<void> {
    const started = !this.#stopped;
    this.#stopped = true;
    this.#timer?.stop();
    if (started) await this.#deps.store.leases.release(this.#name, this.#deps.node_id);
  }

  /** Whether calls may be started. */
  held(): boolean {
    return !this.#deps.store.shared || this.#deps.clock.monotonic() < this.#until;
  }

  /** How often it has run out. Rows that were written before the last time may belong to another gateway. */
  get lapses(): number {
    return this.#lapses;
  }

  mayTakeOver(): boolean {
    if (!this.#deps.store.shared) return true;
    return this.held() && this.#contact !== null && this.#now() - this.#contact >= this.#ttl;
  }

  /** Called after a renewal that came too late: others may have taken over what was under way here. */
  onLapsed(listener: () => void): void {
    this.#lapsed.push(listener);
  }

  /** Resolves when the lease is held; throws `store.unavailable` when it is not within `most_ms`. */
  async confirm(most_ms: number, signal: AbortSignal = NEVER): Promise<void> {
    const end = this.#now() + most_ms;
    while (!this.held()) {
      const left = end - this.#now();
      if (signal.aborted || left <= 0) {
        throw new BackplaneError("store.unavailable", "The gateway could not renew its lease.");
      }
      await nextWake(this.#deps.clock, Math.min(RETRY_MS, left), signal);
    }
  }

  async renew(): Promise<void> {
    const { store, node_id, clock } = this.#deps;
    const asked = this.#now();
    try {
      await this.#within(store.leases.acquire(this.#name, node_id, clock.now(), this.#ttl));
    } catch (error) {
      this.#contact = null;
      throw error;
    }
    const late = asked >= this.#until;
    this.#until = asked + this.#ttl * (1 - MARGIN);
    if (late || this.#contact === null) this.#contact = this.#now();
    if (!late) return;
    this.#lapses++;
    for (const tell of this.#lapsed) tell();
  }

  /** A connection that hangs must not keep the next attempt from a new one. */
  #within<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = () => reject(new BackplaneError("store.unavailable", "The store did not answer in time."));
      const timer = this.#deps.clock.after(Math.max(this.#ttl / 3, RETRY_MS), late);
      work.then(resolve, reject).finally(() => timer.stop());
    });
  }

  #arm(ms: number): void {
    if (this.#stopped) return;
    this.#timer = this.#deps.clock.after(ms, () => {
      this.renew().then(
        () => this.#arm(this.#ttl / 3),
        (error: unknown) => {
          this.#deps.log.warn({ err: error }, "the gateway's lease could not be renewed; trying again");
          this.#arm(Math.min(RETRY_MS, this.#ttl / 3));
        },
      );
    });
  }

  #now(): number {
    return this.#deps.clock.monotonic();
  }
}

const NEVER = new AbortController().signal;
