/**
 * Works off the deliveries: leases due jobs, invokes the hook through the one door, and completes the job on
 * `ack` and on the plugin's own `failed`. Anything else comes back later with back-off and jitter, and is dead
 * after the last attempt. Woken by new jobs and by the next due time; it never polls.
 *
 * Each binding has a small share of the places, so hooks that hang hold up nobody but themselves.
 */

import { codeOf, type Invocation } from "@backplane/contract";
import type { Job, KernelDeps, Ticket, Timer } from "@backplane/ports";
import type { NodeLease } from "../node/node-lease.ts";
import type { InvokeRequest } from "../open/open.ts";
import { DELIVERIES, type Delivery } from "./delivery.ts";

const LEASE_MS = 30_000;
/** Never sooner than this after a look that found nothing. */
const REST_MS = 100;

export class Deliverer {
  readonly #deps: KernelDeps;
  readonly #lease: Pick<NodeLease, "mayTakeOver">;
  readonly #invoke: (request: InvokeRequest) => Promise<Ticket>;
  readonly #running = new Map<string, { job: Job; done: Promise<void> }>();
  #timer: Timer | null = null;
  #looking = false;
  #again = false;
  #stopped = true;

  constructor(
    deps: KernelDeps,
    lease: Pick<NodeLease, "mayTakeOver">,
    invoke: (request: InvokeRequest) => Promise<Ticket>,
  ) {
    this.#deps = deps;
    this.#lease = lease;
    this.#invoke = invoke;
  }

  start(): void {
    this.#stopped = false;
    this.wake();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.stop();
    await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  wake(): void {
    if (this.#looking) this.#again = true;
    else if (!this.#stopped) void this.#look();
  }

  /** Keeps the leases of what runs; called at every heartbeat, which also looks for other nodes' jobs. */
  async extend(): Promise<void> {
    const { store, clock } = this.#deps;
    for (const { job } of this.#running.values()) {
      await store.jobs.extend(job.id, job.fence, clock.now(), LEASE_MS);
    }
    this.wake();
  }

  async #look(): Promise<void> {
    this.#looking = true;
    this.#timer?.stop();
    this.#timer = null;
    try {
      let next: number | null;
      do {
        this.#again = false;
        next = await this.#claim();
      } while (this.#again && !this.#stopped);
      if (next !== null) this.#arm(Math.max(next, REST_MS));
    } catch (error) {
      this.#deps.log.warn({ err: error }, "deliveries could not be read; trying again");
      this.#arm(1_000);
    } finally {
      this.#looking = false;
    }
    if (this.#again) this.wake();
  }

  /** Takes what is due, as far as there are places. In how many ms there is more; null when an end will tell. */
  async #claim(): Promise<number | null> {
    const { store, clock, node_id, host } = this.#deps;
    const { concurrency, per_binding } = host.deliveries;
    let next: number | null = null;
    for (const { lane, due_in } of await store.jobs.lanes(DELIVERIES, clock.now())) {
      const free = concurrency - this.#running.size;
      if (free <= 0 || this.#stopped) return null;
      const room = Math.min(per_binding - this.#runningIn(lane), free);
      if (room <= 0) continue;
      next ??= due_in;
      // The most urgent come first: the others are not due either.
      if (due_in > 0) break;
      // Right after the store was away, the lease of a job may have run out while a living gateway is at it.
      const ready_only = !this.#lease.mayTakeOver();
      const now = clock.now();
      const jobs = await store.jobs.claim(DELIVERIES, node_id, now, LEASE_MS, room, lane, ready_only);
      for (const job of jobs) this.#begin(job);
      if (jobs.length > 0) this.#again = true;
    }
    return next;
  }

  #runningIn(lane: string): number {
    let count = 0;
    for (const { job } of this.#running.values()) if (job.lane === lane) count++;
    return count;
  }

  #arm(ms: number): void {
    if (this.#stopped) return;
    this.#timer = this.#deps.clock.after(Math.min(ms, 2_000_000_000), () => this.wake());
  }

  #begin(job: Job): void {
    const done = this.#deliver(job)
      .catch((error: unknown) => {
        this.#deps.log.warn({ err: error, job_id: job.id }, "a delivery was not recorded; its lease expires");
      })
      .finally(() => {
        this.#running.delete(job.id);
        this.wake();
      });
    this.#running.set(job.id, { job, done });
  }

  async #deliver(job: Job): Promise<void> {
    const { clock, store } = this.#deps;
    const { jobs } = store;
    const trouble = await this.#call(job);
    if (trouble === null) await jobs.complete(job.id, job.fence, clock.now());
    else await jobs.fail(job.id, job.fence, trouble, clock.now(), this.#pause(job.attempt));
  }

  /** null when the delivery is over, else why it has to come back. */
  async #call(job: Job): Promise<string | null> {
    const delivery = job.payload as unknown as Delivery;
    const scope = { org_id: delivery.org_id, project_id: delivery.project_id };
    try {
      const ticket = await this.#invoke({
        caller: { actor: "kernel", scope, role: "user", scopes: [], admin: false },
        body: { binding_id: delivery.binding_id, input: delivery.event },
        delivery: { delivery_id: delivery.delivery_id, attempt: job.attempt },
      });
      return troubleOf(await ticket.settled);
    } catch (error) {
      const code = codeOf(error);
      // Removed or switched off since the event: a hook that is not bound gets nothing.
      if (code === "binding.not_found" || code === "binding.not_active") return null;
      if (code === "authority.project_archived") return null;
      return error instanceof Error ? `${code ?? "internal"}: ${error.message}` : "internal";
    }
  }

  /** Exponential, spread by ± 25 %, so that what failed together does not come back together. */
  #pause(attempt: number): number {
    const { base_ms, max_ms } = this.#deps.host.deliveries;
    const spread = new Uint8Array(1);
    this.#deps.random(spread);
    return Math.min(base_ms * 2 ** (attempt - 1), max_ms) * (0.75 + spread[0]! / 512);
  }
}

function troubleOf(invocation: Invocation): string | null {
  if (invocation.status === "succeeded") return null;
  const code = invocation.error?.code ?? invocation.status;
  if (invocation.status === "failed" && code === "plugin_failed") return null;
  return `${code}: ${invocation.error?.message ?? ""}`;
}
