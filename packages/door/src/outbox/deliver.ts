/**
 * Delivers events to hooks: leases due jobs, invokes the hook through the one door, and completes the job on `ack` and
 * on the plugin's own `failed`. Any other outcome is retried with back-off and jitter, and the job is dead after the last
 * attempt. Woken by new jobs and at the next due time; never polls.
 *
 * Each binding gets only a share of the concurrent deliveries, so a hook that hangs delays no other hook.
 */

import { codeOf, definedFields, type Invocation, type JsonObject } from "@backplane/contract";
import type { Job, KernelDeps, Ticket, Timer, TraceIds } from "@backplane/ports";
import type { NodeLease } from "../node/node-lease.ts";
import type { InvocationRequest } from "../open/open.ts";

export const DELIVERIES_QUEUE = "deliveries";

/** One hook call for one event. The id stays the same at every attempt. */
interface Delivery {
  delivery_id: string;
  binding_id: string;
  org_id: string;
  project_id: string | null;
  event: JsonObject & TraceIds;
}

const LEASE_MS = 30_000;
/** The shortest time between two reads of the queue. */
const MIN_WAIT_MS = 100;

export class Deliverer {
  readonly #deps: KernelDeps;
  readonly #lease: Pick<NodeLease, "mayTakeOver">;
  readonly #invoke: (request: InvocationRequest) => Promise<Ticket>;
  readonly #running = new Map<string, { job: Job; done: Promise<void> }>();
  #timer: Timer | null = null;
  #claiming = false;
  #again = false;
  #stopped = true;

  constructor(
    deps: KernelDeps,
    lease: Pick<NodeLease, "mayTakeOver">,
    invoke: (request: InvocationRequest) => Promise<Ticket>,
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
    if (this.#claiming) this.#again = true;
    else if (!this.#stopped) void this.#claimAll();
  }

  /** Extends the leases of running jobs and looks for jobs of other nodes. Called at every heartbeat. */
  async extend(): Promise<void> {
    const { store, clock } = this.#deps;
    for (const { job } of this.#running.values()) {
      await store.jobs.extend(job.id, job.fence, clock.now(), LEASE_MS);
    }
    this.wake();
  }

  async #claimAll(): Promise<void> {
    this.#claiming = true;
    this.#timer?.stop();
    this.#timer = null;
    try {
      let next: number | null;
      do {
        this.#again = false;
        next = await this.#claimDue();
      } while (this.#again && !this.#stopped);
      if (next !== null) this.#arm(Math.max(next, MIN_WAIT_MS));
    } catch (error) {
      this.#deps.log.warn({ err: error }, "could not read the deliveries; retrying");
      this.#arm(1_000);
    } finally {
      this.#claiming = false;
    }
    if (this.#again) this.wake();
  }

  /** Starts due jobs up to the limits. Resolves with the ms until the next job, or null if a finished job will wake it. */
  async #claimDue(): Promise<number | null> {
    const { store, clock, node_id, host } = this.#deps;
    const { concurrency, per_binding } = host.deliveries;
    let next: number | null = null;
    for (const { lane, due_in } of await store.jobs.lanes(DELIVERIES_QUEUE, clock.now())) {
      const free = concurrency - this.#running.size;
      if (free <= 0 || this.#stopped) return null;
      const room = Math.min(per_binding - this.#runningIn(lane), free);
      if (room <= 0) continue;
      next ??= due_in;
      // Lanes are sorted by due time, so the others are not due either.
      if (due_in > 0) break;
      // Right after an outage of the store, the lease of a job may have expired while a live gateway is running it.
      const ready_only = !this.#lease.mayTakeOver();
      const now = clock.now();
      const jobs = await store.jobs.claim(DELIVERIES_QUEUE, node_id, now, LEASE_MS, room, lane, ready_only);
      for (const job of jobs) this.#start(job);
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

  #start(job: Job): void {
    const done = this.#deliver(job)
      .catch((error: unknown) => {
        this.#deps.log.warn(
          { err: error, job_id: job.id },
          "could not record a delivery; it is retried when its lease expires",
        );
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
    const failure = await this.#invokeHook(job);
    if (failure === null) await jobs.complete(job.id, job.fence, clock.now());
    else await jobs.fail(job.id, job.fence, failure, clock.now(), this.#backoff(job.attempt));
  }

  /** Resolves with null when the delivery is done, otherwise with the reason for a retry. */
  async #invokeHook(job: Job): Promise<string | null> {
    const delivery = job.payload as unknown as Delivery;
    const scope = { org_id: delivery.org_id, project_id: delivery.project_id };
    try {
      const ticket = await this.#invoke({
        caller: { actor: "kernel", scope, role: "user", scopes: [], admin: false },
        body: { binding_id: delivery.binding_id, input: delivery.event, ...idsOf(delivery.event) },
        delivery: { delivery_id: delivery.delivery_id, attempt: job.attempt },
      });
      return retryReason(await ticket.settled);
    } catch (error) {
      const code = codeOf(error);
      // The hook was removed or disabled after the event, so the event is no longer for it.
      if (code === "binding.not_found" || code === "binding.not_active") return null;
      if (code === "authority.project_archived") return null;
      return error instanceof Error ? `${code ?? "internal"}: ${error.message}` : "internal";
    }
  }

  /** Exponential with ± 25 % jitter, so that jobs that failed together are not retried together. */
  #backoff(attempt: number): number {
    const { base_ms, max_ms } = this.#deps.host.deliveries;
    const spread = new Uint8Array(1);
    this.#deps.random(spread);
    return Math.min(base_ms * 2 ** (attempt - 1), max_ms) * (0.75 + spread[0]! / 512);
  }
}

function idsOf({ session_id, chain_id, run_id, trace_id }: TraceIds): TraceIds {
  return definedFields({ session_id, chain_id, run_id, trace_id });
}

function retryReason(invocation: Invocation): string | null {
  if (invocation.status === "succeeded") return null;
  const code = invocation.error?.code ?? invocation.status;
  if (invocation.status === "failed" && code === "plugin_failed") return null;
  return `${code}: ${invocation.error?.message ?? ""}`;
}
