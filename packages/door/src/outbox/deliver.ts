/**
 * Delivers events to hooks: reserves due jobs and invokes the hook through the one door. The settlement of the call
 * completes the job in the same transaction on `ack` and on the plugin's own `failed`. Any other outcome is retried
 * with back-off and jitter, and the job is dead after the last attempt. The jobs of a paused or disabled hook wait
 * until the hook accepts deliveries again; the jobs of a removed hook are discarded. The deliverer is woken by new
 * jobs, at the next due time, when deliveries end and by every heartbeat.
 *
 * The jobs of one binding form a lane. The concurrent deliveries of each lane are limited, so a hook that hangs delays
 * no other hook. Jobs are reserved in advance, so that a delivery does not wait for its own read. If the store is not
 * shared, new jobs are taken directly from the write that enqueued them, and only jobs that are not in memory are read.
 * Calls to a quick hook are opened in advance: a call whose row is on disk waits for a slot, and starts as soon as
 * another call to the hook ends.
 */

import { type Binding, codeOf, definedFields, type JsonObject } from "@backplane/contract";
import type { Job, KernelDeps, Ticket, Timer, TraceIds } from "@backplane/ports";
import type { NodeLease } from "../node/node-lease.ts";
import type { InvocationRequest } from "../open/open.ts";
import { retryReasonOf } from "./delivery-outcome.ts";
import { DeliverySlots, type OpenedDelivery } from "./delivery-slots.ts";

export const DELIVERIES_QUEUE = "deliveries";

/** One hook call for one event. The id stays the same at every attempt. */
export interface DeliveryPayload {
  delivery_id: string;
  binding_id: string;
  org_id: string;
  project_id: string | null;
  event: JsonObject & TraceIds;
  /** Set if `binding_id` is a share: the binding that gets the delivery if the share is removed. */
  share_of?: string;
  /** Made by a person to try the hook, not by an event. */
  test?: boolean;
}

const LEASE_MS = 30_000;
/**
 * How many jobs are reserved in advance for each job that may run at the same time. Jobs that one gateway reserves are
 * not available to the other gateways that share the queue. If the queue is not shared, larger reads cost less per job
 * (benchmark hooks.delivery).
 */
const RESERVED_SHARED = 1;
const RESERVED_UNSHARED = 16;
/**
 * How many new jobs of a lane are taken without a read, for each job that may run at the same time. The limit bounds
 * the memory and the time that a job in the store can wait behind newer jobs: reads are in the order of the due times.
 */
const UNREAD_UNSHARED = 64;
/** How many jobs of all lanes are reserved in advance in a queue that is not shared. */
const MAX_RESERVED = 4_000;
/** How many deliveries may wait for their settlement, for each delivery that may run at the same time. */
const MAX_UNSETTLED = 3;
/** The shortest time between two reads of the queue. */
const MIN_WAIT_MS = 100;
/**
 * The pause before another attempt at a delivery that did not start, because the gateway was overloaded or stopping, or
 * its store was not available.
 */
const NOT_STARTED_MS = 1_000;

/**
 * `settled`: the settlement of the call has completed the job. `not_started`: the gateway could not make the call.
 * `never_ran`: the call was withdrawn before the hook started. `wait`: the hook accepts no deliveries at present.
 */
type DeliveryEnd =
  | "settled"
  | "not_started"
  | "never_ran"
  | { wait: string }
  | { discard: string }
  | { retry: string };

interface RunningDelivery extends OpenedDelivery {
  done: Promise<void>;
}

export class Deliverer {
  readonly #deps: KernelDeps;
  readonly #lease: Pick<NodeLease, "mayTakeOver">;
  readonly #invoke: (request: InvocationRequest) => Promise<Ticket>;
  /** Deliveries until their settlement is written. */
  readonly #running = new Map<string, RunningDelivery>();
  readonly #slots: DeliverySlots;
  /** Reserved jobs that are not started yet, by lane. */
  readonly #reserved = new Map<string, Job[]>();
  /** The ids of all reserved jobs that are not started yet. */
  readonly #reserved_ids = new Set<string>();
  /**
   * How many new jobs of a lane may be taken without a read. Absent if the store may have due jobs of the lane that
   * are not reserved.
   */
  readonly #unread = new Map<string, number>();
  #timer: Timer | null = null;
  #claiming = false;
  #claim_again = false;
  #wake_scheduled = false;
  #stopped = true;

  constructor(
    deps: KernelDeps,
    lease: Pick<NodeLease, "mayTakeOver">,
    invoke: (request: InvocationRequest) => Promise<Ticket>,
  ) {
    this.#deps = deps;
    this.#slots = new DeliverySlots(deps.clock, deps.host.deliveries.concurrency);
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
    const lanes = new Set([...this.#reserved.keys(), ...this.#slots.lanes()]);
    await Promise.all([...lanes].map((lane) => this.#release(lane)));
    await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  wake(): void {
    if (this.#claiming) this.#claim_again = true;
    else if (!this.#stopped) void this.#claimAll();
  }

  /** A hook may have been paused or resumed. New jobs wait for a read, which also reads the limit of their lane. */
  applyBindings(): void {
    this.#unread.clear();
    this.wake();
  }

  /** Takes jobs that were just enqueued and reserved. A job that is not taken stays due in the store. */
  add(due: readonly Job[]): void {
    let needs_read = due.length === 0;
    for (const job of due) {
      // A read may have found the job before the write that enqueued it was reported.
      if (this.#running.has(job.id) || this.#reserved_ids.has(job.id)) continue;
      const unread = this.#unread.get(job.lane) ?? 0;
      if (unread > 0 && this.#reserved_ids.size < MAX_RESERVED && !this.#stopped) {
        this.#unread.set(job.lane, unread - 1);
        this.#addReserved(job.lane, [job]);
      } else {
        this.#unread.delete(job.lane);
        needs_read = true;
      }
    }
    this.#startReserved();
    if (needs_read) this.wake();
  }

  /** Deliveries that end in the same turn of the event loop share one read. */
  #wakeSoon(): void {
    const { pause } = this.#deps;
    if (pause === undefined) this.wake();
    if (pause === undefined || this.#wake_scheduled) return;
    this.#wake_scheduled = true;
    pause(() => {
      this.#wake_scheduled = false;
      this.wake();
    });
  }

  /** Makes the deliveries of dead gateways due, because their leases may expire much later. */
  async releaseOrphans(): Promise<void> {
    const { store, node_id, clock } = this.#deps;
    if ((await store.jobs.releaseOrphans(DELIVERIES_QUEUE, node_id, clock.now())) > 0) this.wake();
  }

  /** Extends the leases of the jobs of this node and looks for jobs of other nodes. Called at every heartbeat. */
  async extend(): Promise<void> {
    const { store, clock } = this.#deps;
    const running = [...this.#running.values()].map(({ job }) => job);
    const leased = [...running, ...[...this.#reserved.values()].flat().filter(isLeased)];
    // Together, so that they share a commit.
    await Promise.all(leased.map(({ id, fence }) => store.jobs.extend(id, fence, clock.now(), LEASE_MS)));
    this.wake();
  }

  async #claimAll(): Promise<void> {
    this.#claiming = true;
    this.#timer?.stop();
    this.#timer = null;
    try {
      let next: number | null;
      do {
        this.#claim_again = false;
        next = await this.#claimDue();
      } while (this.#claim_again && !this.#stopped);
      if (next !== null) this.#schedule(Math.max(next, MIN_WAIT_MS));
    } catch (error) {
      this.#deps.log.warn({ err: error }, "could not read the deliveries; retrying");
      this.#schedule(1_000);
    } finally {
      this.#claiming = false;
    }
    if (this.#claim_again) this.wake();
  }

  /**
   * Reserves due jobs up to the limits. Resolves with the ms until the next job is due, or with null if no timer is
   * needed.
   */
  async #claimDue(): Promise<number | null> {
    const { store, clock, node_id } = this.#deps;
    let next: number | null = null;
    if (!this.#mayReserve()) return null;
    for (const { lane, due_in, org_id } of await store.jobs.listLanes(DELIVERIES_QUEUE, clock.now())) {
      if (!this.#mayReserve()) return null;
      const limit = await this.#readLimit(org_id, lane);
      if (limit === 0) {
        // The hook is paused or disabled. A change of its binding wakes the deliverer.
        await this.#release(lane);
        continue;
      }
      const reserved_count = this.#reserved.get(lane)?.length ?? 0;
      const room = this.#roomFor(limit, this.#slots.countInProgress(lane) + reserved_count);
      if (room <= 0 || hasEnough(reserved_count, limit)) continue;
      // Lanes are sorted by due time, so the lanes after this one are not due either.
      if (due_in > 0) {
        next ??= due_in;
        break;
      }
      // Right after an outage of the store, the lease of a job may have expired while a live gateway is running it.
      const ready_only = !this.#lease.mayTakeOver();
      const now = clock.now();
      const held = this.#heldIn(lane);
      const { jobs: queue } = store;
      const jobs = await queue.reserve(
        DELIVERIES_QUEUE,
        node_id,
        now,
        LEASE_MS,
        room,
        lane,
        ready_only,
        held,
      );
      this.#addReserved(lane, jobs);
      if (this.#stopped) {
        await this.#release(lane);
        return null;
      }
      this.#startReserved();
      // The end of a running job wakes the deliverer when the lane has no room.
      if (jobs.length >= room) continue;
      if (!store.shared) this.#unread.set(lane, limit * UNREAD_UNSHARED);
      // Jobs that were reserved stay due until they are started, so the time of the next one is read later.
      if (jobs.length > 0 && !store.shared) next ??= 0;
      else if (jobs.length > 0) this.#claim_again = true;
      // The end of a running job wakes the deliverer.
      else if (!this.#reserved.has(lane)) next ??= due_in;
    }
    return next;
  }

  /**
   * In a queue that gateways share, a gateway at its limit of deliveries leaves further jobs to the others. In any
   * other queue a reservation is only a read, so the next jobs are read before the last ones are started.
   */
  #mayReserve(): boolean {
    if (this.#stopped) return false;
    return !this.#deps.store.shared || this.#slots.hasRoom();
  }

  /**
   * How many more jobs of a lane may be reserved. `held` is the number of its jobs that are reserved or in progress.
   */
  #roomFor(limit: number, held: number): number {
    const room = limit * (1 + (this.#deps.store.shared ? RESERVED_SHARED : RESERVED_UNSHARED)) - held;
    // A lane may always reserve as many jobs as it may run at the same time, even if other lanes have reserved many.
    return Math.min(room, Math.max(limit - held, MAX_RESERVED - this.#reserved_ids.size));
  }

  #addReserved(lane: string, jobs: readonly Job[]): void {
    if (jobs.length === 0) return;
    const reserved = this.#reserved.get(lane);
    if (reserved === undefined) this.#reserved.set(lane, [...jobs]);
    else reserved.push(...jobs);
    for (const { id } of jobs) this.#reserved_ids.add(id);
  }

  /**
   * Returns 0 while the hook is paused or disabled. The deliveries of a removed hook are started, so that each of them
   * ends.
   */
  async #readLimit(org_id: string, lane: string): Promise<number> {
    const { store, host } = this.#deps;
    const bound = org_id === "" ? null : await store.bindings.get({ org_id, project_id: null }, lane);
    const settings = bound?.binding.policy.deliveries;
    const limit =
      bound !== null && !acceptsDeliveries(bound.binding)
        ? 0
        : (settings?.concurrency ?? host.deliveries.per_binding);
    this.#slots.setLimit(lane, limit);
    return limit;
  }

  /** The jobs of the lane that are running or reserved. */
  #heldIn(lane: string): Set<string> {
    const held = new Set<string>();
    for (const { job } of this.#running.values()) if (job.lane === lane) held.add(job.id);
    for (const { id } of this.#reserved.get(lane) ?? []) held.add(id);
    return held;
  }

  /** Starts reserved jobs up to the limits, one of each lane in turn. */
  #startReserved(): void {
    for (const [lane, jobs] of this.#reserved) {
      // A store that is slow to write settlements must not let them accumulate.
      if (this.#running.size >= this.#deps.host.deliveries.concurrency * MAX_UNSETTLED || this.#stopped)
        return;
      if (!this.#slots.mayOpen(lane, jobs[0], this.#reserved.size)) continue;
      const job = jobs.shift();
      // The lane moves to the end, so that the other lanes come first.
      this.#reserved.delete(lane);
      if (jobs.length > 0) this.#reserved.set(lane, jobs);
      if (job === undefined) continue;
      this.#reserved_ids.delete(job.id);
      this.#start(job);
    }
  }

  async #release(lane: string): Promise<void> {
    const { store, clock, log } = this.#deps;
    const jobs = this.#reserved.get(lane) ?? [];
    this.#reserved.delete(lane);
    this.#unread.delete(lane);
    for (const { id } of jobs) this.#reserved_ids.delete(id);
    this.#slots.withdrawWaiting(lane);
    const release = (job: Job) =>
      store.jobs.release(job.id, job.fence, clock.now(), 0).catch((error: unknown) => {
        log.warn({ err: error, job_id: job.id }, "could not release a delivery; its lease expires");
      });
    await Promise.all(jobs.filter(isLeased).map(release));
  }

  #schedule(ms: number): void {
    if (this.#stopped) return;
    this.#timer = this.#deps.clock.after(Math.min(ms, 2_000_000_000), () => this.wake());
  }

  #start(job: Job): void {
    const delivery: RunningDelivery = {
      job,
      stage: "opening",
      started_at: null,
      withdrawn: false,
      done: Promise.resolve(),
    };
    this.#running.set(job.id, delivery);
    this.#slots.open(delivery);
    const startNext = () => {
      this.#startReserved();
      // While enough jobs are reserved in advance, there is nothing to read.
      const reserved_count = this.#reserved.get(job.lane)?.length ?? 0;
      if (!hasEnough(reserved_count, this.#slots.limitOf(job.lane))) this.#wakeSoon();
    };
    const onEnded = () => {
      this.#slots.end(delivery);
      startNext();
    };
    delivery.done = this.#deliver(delivery, onEnded)
      .catch((error: unknown) => {
        this.#deps.log.warn(
          { err: error, job_id: job.id },
          "could not record a delivery; it is retried when its lease expires",
        );
      })
      .finally(() => {
        this.#running.delete(job.id);
        onEnded();
      });
  }

  async #deliver(delivery: RunningDelivery, onEnded: () => void): Promise<void> {
    const { clock, store } = this.#deps;
    const { jobs } = store;
    const { job } = delivery;
    const end = await this.#invokeHook(delivery, onEnded);
    if (end === "settled") return;
    if (end === "not_started") await jobs.release(job.id, job.fence, clock.now(), NOT_STARTED_MS);
    else if (end === "never_ran") await jobs.release(job.id, job.fence, clock.now(), 0, "never_ran");
    else if ("wait" in end) await this.#keepWaiting(job, end.wait);
    else if ("discard" in end) await jobs.discardHeld(job.id, job.fence, end.discard, clock.now());
    else await jobs.fail(job.id, job.fence, end.retry, clock.now(), this.#backoff(job.attempt));
  }

  /**
   * Returns the job to the queue, with a delay that grows with the age of its event up to the longest delay of a retry.
   * An attempt that was refused does not count. A delivery older than the retention of dead deliveries is discarded.
   */
  async #keepWaiting(job: Job, reason: string): Promise<void> {
    const { clock, store, host } = this.#deps;
    const { event } = job.payload as unknown as DeliveryPayload;
    const age = clock.now() - Date.parse(event.occurred_at as string);
    const max_age = host.retention.dead_jobs_ms;
    if (max_age > 0 && age > max_age) {
      await store.jobs.discardHeld(job.id, job.fence, reason, clock.now());
      return;
    }
    const delay = Math.min(Math.max(NOT_STARTED_MS, age), host.deliveries.max_ms);
    await store.jobs.release(job.id, job.fence, clock.now(), delay, "refused");
  }

  async #invokeHook(delivery: RunningDelivery, onEnded: () => void): Promise<DeliveryEnd> {
    const { binding_id, share_of } = delivery.job.payload as unknown as DeliveryPayload;
    const end = await this.#invokeBinding(binding_id, delivery, onEnded);
    const is_gone = typeof end === "object" && "discard" in end;
    return is_gone && share_of !== undefined ? await this.#invokeBinding(share_of, delivery, onEnded) : end;
  }

  async #invokeBinding(
    binding_id: string,
    delivery: RunningDelivery,
    onEnded: () => void,
  ): Promise<DeliveryEnd> {
    const { job } = delivery;
    const { delivery_id, org_id, project_id, event } = job.payload as unknown as DeliveryPayload;
    const scope = { org_id, project_id };
    const lease = { id: job.id, fence: job.fence, leased_until: this.#deps.clock.now() + LEASE_MS };
    try {
      const ticket = await this.#invoke({
        caller: { actor: "kernel", scope, role: "user", scopes: [], admin: false },
        body: { binding_id, input: event, ...idsOf(event) },
        delivery: {
          delivery_id,
          attempt: job.attempt,
          job: lease,
          onEnded,
          acquireSlot: () => this.#slots.acquire(delivery),
        },
      });
      const ended = await ticket.settled;
      const reason = retryReasonOf(ended);
      if (reason === null) return "settled";
      if (delivery.withdrawn) return "never_ran";
      return this.#mustWait(ended.error?.code) ? { wait: reason } : { retry: reason };
    } catch (error) {
      const code = codeOf(error) ?? "internal";
      const reason = error instanceof Error ? `${code}: ${error.message}` : code;
      if (NOT_STARTED_CODES.has(code)) return "not_started";
      if (code === "binding.not_found") return { discard: reason };
      return this.#mustWait(code) ? { wait: reason } : { retry: reason };
    }
  }

  /** Whether the delivery is refused for now. Another gateway may have the files of the hook, or store them soon. */
  #mustWait(code: string | undefined): boolean {
    if (code === "package.files_missing") return this.#deps.store.shared;
    return code !== undefined && WAIT_CODES.has(code);
  }

  /** Exponential with ± 25% jitter, so that jobs that failed together are not retried together. */
  #backoff(attempt: number): number {
    const { base_ms, max_ms } = this.#deps.host.deliveries;
    const spread = new Uint8Array(1);
    this.#deps.random(spread);
    return Math.min(base_ms * 2 ** (attempt - 1), max_ms) * (0.75 + spread[0]! / 512);
  }
}

/** Whether the job is leased in the store. A job that is only reserved is unchanged in the store. */
function isLeased({ state }: Job): boolean {
  return state === "leased";
}

/** Whether so many jobs of a lane are reserved that the lane need not be read yet. */
function hasEnough(reserved_count: number, limit: number): boolean {
  return reserved_count * 2 > limit;
}

/** Whether deliveries to the binding may start; otherwise they wait. */
export function acceptsDeliveries({ status, rollout, policy }: Binding): boolean {
  return status === "active" && rollout.traffic_percent > 0 && policy.deliveries?.paused !== true;
}

/** After the event the hook stopped accepting calls, or its project was archived. Either can be undone. */
const WAIT_CODES: ReadonlySet<string> = new Set(["binding.not_active", "authority.project_archived"]);

/** Nothing was tried, so the attempt does not count. A delivery that another gateway has taken over stays there. */
const NOT_STARTED_CODES: ReadonlySet<string> = new Set([
  "delivery.taken_over",
  "gateway_stopping",
  "request.overloaded",
  "store.unavailable",
]);

function idsOf({ session_id, chain_id, run_id, trace_id }: TraceIds): TraceIds {
  return definedFields({ session_id, chain_id, run_id, trace_id });
}
