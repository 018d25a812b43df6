/**
 * Delivers events to hooks: reserves due jobs and invokes the hook through the one door. The settlement of the call
 * completes the job in the same transaction on `ack` and on the plugin's own `failed`. Any other outcome is retried with
 * back-off and jitter, and the job is dead after the last attempt. Woken by new jobs and at the next due time; never
 * polls.
 *
 * Each binding gets only a share of the concurrent deliveries, so a hook that hangs delays no other hook. Jobs are reserved
 * ahead, so that a delivery does not wait for its own read. In a store of its own, a gateway takes new jobs directly from
 * the write that enqueued them and reads only those that it does not have in memory.
 */

import { codeOf, definedFields, type JsonObject } from "@backplane/contract";
import type { Job, KernelDeps, Ticket, Timer, TraceIds } from "@backplane/ports";
import type { NodeLease } from "../node/node-lease.ts";
import type { InvocationRequest } from "../open/open.ts";
import { retryReason } from "./delivery-outcome.ts";

export const DELIVERIES_QUEUE = "deliveries";

/** One hook call for one event. The id stays the same at every attempt. */
export interface DeliveryPayload {
  delivery_id: string;
  binding_id: string;
  org_id: string;
  project_id: string | null;
  event: JsonObject & TraceIds;
  /** Made by a person to try the hook, not by an event. */
  test?: boolean;
}

const LEASE_MS = 30_000;
/**
 * How many jobs are reserved ahead for each one that may run at the same time. Jobs that one gateway reserves are not
 * available to the others that share the queue. In a queue of its own, larger reads cost less per job (bench row hooks.delivery).
 */
const AHEAD_SHARED = 1;
const AHEAD_ALONE = 16;
/**
 * How many new jobs of a lane are taken without a read, for each one that may run at the same time. The limit bounds the
 * memory and the time that a job in the store can wait behind newer ones: reads are in the order of the due times.
 */
const UNREAD_ALONE = 64;
/** How many jobs of all lanes are reserved ahead in a queue of its own. */
const MAX_AHEAD = 4_000;
/** The shortest time between two reads of the queue. */
const MIN_WAIT_MS = 100;
/** The pause of a delivery that did not start, because the gateway was overloaded or stopping, or its store was not available. */
const NOT_STARTED_MS = 1_000;

/** `settled`: the settlement of the call has completed the job. */
type DeliveryEnd = "settled" | "dropped" | "not_started" | { retry: string };

interface RunningDelivery {
  job: Job;
  active: boolean;
  done: Promise<void>;
}

export class Deliverer {
  readonly #deps: KernelDeps;
  readonly #lease: Pick<NodeLease, "mayTakeOver">;
  readonly #invoke: (request: InvocationRequest) => Promise<Ticket>;
  /** Deliveries until their settlement is written. After its hook has ended, a delivery does not count as active. */
  readonly #running = new Map<string, RunningDelivery>();
  /** How many of them are active, by lane. Counted as they change, because every start compares them (bench row hooks.delivery). */
  readonly #active_in = new Map<string, number>();
  #active = 0;
  /** Reserved jobs that are not started yet, by lane. */
  readonly #ahead = new Map<string, Job[]>();
  /** The ids of all of them. */
  readonly #ahead_ids = new Set<string>();
  /**
   * How many new jobs of a lane may be taken without a read. Absent if the store may have due jobs of the lane that are not
   * reserved.
   */
  readonly #unread = new Map<string, number>();
  /** How many deliveries of a lane may run at the same time, as last read. */
  readonly #limits = new Map<string, number>();
  #timer: Timer | null = null;
  #claiming = false;
  #again = false;
  #woken = false;
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
    await Promise.all([...this.#ahead.keys()].map((lane) => this.#release(lane)));
    await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  wake(): void {
    if (this.#claiming) this.#again = true;
    else if (!this.#stopped) void this.#claimAll();
  }

  /** A hook may have been paused or resumed. New jobs wait for a read, which also reads the limit of their lane. */
  applyBindings(): void {
    this.#unread.clear();
    this.wake();
  }

  /** Takes jobs that were just enqueued and reserved. A job that is not taken stays due in the store. */
  add(due: readonly Job[]): void {
    let refused = due.length === 0;
    for (const job of due) {
      // A read may have found the job before the write that enqueued it was reported.
      if (this.#running.has(job.id) || this.#ahead_ids.has(job.id)) continue;
      const unread = this.#unread.get(job.lane) ?? 0;
      if (unread > 0 && this.#ahead_ids.size < MAX_AHEAD && !this.#stopped) {
        this.#unread.set(job.lane, unread - 1);
        this.#reserveAhead(job.lane, [job]);
      } else {
        this.#unread.delete(job.lane);
        refused = true;
      }
    }
    this.#startAhead();
    if (refused) this.wake();
  }

  /** Deliveries that end in the same turn of the event loop share one read. */
  #wakeSoon(): void {
    const { pause } = this.#deps;
    if (pause === undefined) this.wake();
    if (pause === undefined || this.#woken) return;
    this.#woken = true;
    pause(() => {
      this.#woken = false;
      this.wake();
    });
  }

  /** Makes the deliveries of dead gateways due. Their leases may last much longer than the gateways did. */
  async releaseOrphans(): Promise<void> {
    const { store, node_id, clock } = this.#deps;
    if ((await store.jobs.releaseOrphans(DELIVERIES_QUEUE, node_id, clock.now())) > 0) this.wake();
  }

  /** Extends the leases of its jobs and looks for jobs of other nodes. Called at every heartbeat. */
  async extend(): Promise<void> {
    const { store, clock } = this.#deps;
    const running = [...this.#running.values()].map(({ job }) => job);
    const held = [...running, ...[...this.#ahead.values()].flat().filter(isLeased)];
    // Together, so that they share a commit.
    await Promise.all(held.map(({ id, fence }) => store.jobs.extend(id, fence, clock.now(), LEASE_MS)));
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

  /**
   * Reserves due jobs up to the limits. Resolves with the ms until the next job, or null if a finished job will wake
   * it.
   */
  async #claimDue(): Promise<number | null> {
    const { store, clock, node_id } = this.#deps;
    let next: number | null = null;
    if (!this.#mayReserve()) return null;
    for (const { lane, due_in, org_id } of await store.jobs.lanes(DELIVERIES_QUEUE, clock.now())) {
      if (!this.#mayReserve()) return null;
      const limit = await this.#readLimit(org_id, lane);
      if (limit === 0) {
        // The hook is paused. A change of its binding wakes this.
        await this.#release(lane);
        continue;
      }
      const left = this.#ahead.get(lane)?.length ?? 0;
      const room = this.#roomFor(limit, this.#activeIn(lane) + left);
      if (room <= 0 || hasEnough(left, limit)) continue;
      // Lanes are sorted by due time, so the others are not due either.
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
      this.#reserveAhead(lane, jobs);
      if (this.#stopped) {
        await this.#release(lane);
        return null;
      }
      this.#startAhead();
      // The end of a running job wakes this when the lane has no room.
      if (jobs.length >= room) continue;
      if (!store.shared) this.#unread.set(lane, limit * UNREAD_ALONE);
      // Jobs that were reserved stay due until they are started, so the time of the next one is read later.
      if (jobs.length > 0 && !store.shared) next ??= 0;
      else if (jobs.length > 0) this.#again = true;
      // The end of a running job wakes this.
      else if (!this.#ahead.has(lane)) next ??= due_in;
    }
    return next;
  }

  /**
   * In a queue that gateways share, a gateway at its limit of deliveries leaves further jobs to the others. In a queue
   * of its own, a reservation is only a read, so the next jobs are read before the last ones are started.
   */
  #mayReserve(): boolean {
    if (this.#stopped) return false;
    return !this.#deps.store.shared || this.#active < this.#deps.host.deliveries.concurrency;
  }

  /** How many more jobs of a lane with this limit may be reserved, if it has that many. */
  #roomFor(limit: number, held: number): number {
    const room = limit * (1 + (this.#deps.store.shared ? AHEAD_SHARED : AHEAD_ALONE)) - held;
    // A lane always gets as many as it may run at the same time, even if other lanes have reserved many.
    return Math.min(room, Math.max(limit - held, MAX_AHEAD - this.#ahead_ids.size));
  }

  #reserveAhead(lane: string, jobs: readonly Job[]): void {
    if (jobs.length === 0) return;
    const ahead = this.#ahead.get(lane);
    if (ahead === undefined) this.#ahead.set(lane, [...jobs]);
    else ahead.push(...jobs);
    for (const { id } of jobs) this.#ahead_ids.add(id);
  }

  /** 0 while the hook is paused. */
  async #readLimit(org_id: string, lane: string): Promise<number> {
    const { store, host } = this.#deps;
    const bound = org_id === "" ? null : await store.bindings.get({ org_id, project_id: null }, lane);
    const wanted = bound?.binding.policy.deliveries;
    const limit = wanted?.paused === true ? 0 : (wanted?.concurrency ?? host.deliveries.per_binding);
    this.#limits.set(lane, limit);
    return limit;
  }

  /** The jobs of the lane that are running or reserved. */
  #heldIn(lane: string): Set<string> {
    const held = new Set<string>();
    for (const { job } of this.#running.values()) if (job.lane === lane) held.add(job.id);
    for (const { id } of this.#ahead.get(lane) ?? []) held.add(id);
    return held;
  }

  #activeIn(lane: string): number {
    return this.#active_in.get(lane) ?? 0;
  }

  #countActive(lane: string, change: 1 | -1): void {
    this.#active += change;
    const count = this.#activeIn(lane) + change;
    if (count === 0) this.#active_in.delete(lane);
    else this.#active_in.set(lane, count);
  }

  /** Starts reserved jobs up to the limits, one of each lane in turn. */
  #startAhead(): void {
    const { concurrency } = this.#deps.host.deliveries;
    for (const [lane, jobs] of this.#ahead) {
      if (this.#active >= concurrency || this.#stopped) return;
      // A store that is slow to write settlements must not let them accumulate.
      if (this.#running.size >= concurrency * 2) return;
      if (this.#activeIn(lane) >= (this.#limits.get(lane) ?? 1)) continue;
      const job = jobs.shift();
      // Moved to the end, so that the other lanes are next and this one is visited again after them.
      this.#ahead.delete(lane);
      if (jobs.length > 0) this.#ahead.set(lane, jobs);
      if (job === undefined) continue;
      this.#ahead_ids.delete(job.id);
      this.#start(job);
    }
  }

  async #release(lane: string): Promise<void> {
    const { store, clock, log } = this.#deps;
    const jobs = this.#ahead.get(lane) ?? [];
    this.#ahead.delete(lane);
    this.#unread.delete(lane);
    for (const { id } of jobs) this.#ahead_ids.delete(id);
    const release = (job: Job) =>
      store.jobs.release(job.id, job.fence, clock.now(), 0).catch((error: unknown) => {
        log.warn({ err: error, job_id: job.id }, "could not release a delivery; its lease expires");
      });
    await Promise.all(jobs.filter(isLeased).map(release));
  }

  #arm(ms: number): void {
    if (this.#stopped) return;
    this.#timer = this.#deps.clock.after(Math.min(ms, 2_000_000_000), () => this.wake());
  }

  #start(job: Job): void {
    const delivery: RunningDelivery = { job, active: true, done: Promise.resolve() };
    this.#running.set(job.id, delivery);
    this.#countActive(job.lane, 1);
    const startNext = () => {
      this.#startAhead();
      // While enough jobs are reserved ahead, there is nothing to read.
      const left = this.#ahead.get(job.lane)?.length ?? 0;
      if (!hasEnough(left, this.#limits.get(job.lane) ?? 1)) this.#wakeSoon();
    };
    const end = () => {
      if (!delivery.active) return;
      delivery.active = false;
      this.#countActive(job.lane, -1);
    };
    const onEnded = () => {
      end();
      startNext();
    };
    delivery.done = this.#deliver(job, onEnded)
      .catch((error: unknown) => {
        this.#deps.log.warn(
          { err: error, job_id: job.id },
          "could not record a delivery; it is retried when its lease expires",
        );
      })
      .finally(() => {
        this.#running.delete(job.id);
        end();
        startNext();
      });
  }

  async #deliver(job: Job, onEnded: () => void): Promise<void> {
    const { clock, store } = this.#deps;
    const { jobs } = store;
    const end = await this.#invokeHook(job, onEnded);
    if (end === "settled") return;
    if (end === "dropped") await jobs.complete(job.id, job.fence, clock.now());
    else if (end === "not_started") await jobs.release(job.id, job.fence, clock.now(), NOT_STARTED_MS);
    else await jobs.fail(job.id, job.fence, end.retry, clock.now(), this.#backoff(job.attempt));
  }

  async #invokeHook(job: Job, onEnded: () => void): Promise<DeliveryEnd> {
    const { delivery_id, binding_id, org_id, project_id, event } = job.payload as unknown as DeliveryPayload;
    const scope = { org_id, project_id };
    const held = { id: job.id, fence: job.fence, leased_until: this.#deps.clock.now() + LEASE_MS };
    try {
      const ticket = await this.#invoke({
        caller: { actor: "kernel", scope, role: "user", scopes: [], admin: false },
        body: { binding_id, input: event, ...idsOf(event) },
        delivery: { delivery_id, attempt: job.attempt, job: held, onEnded },
      });
      const reason = retryReason(await ticket.settled);
      return reason === null ? "settled" : { retry: reason };
    } catch (error) {
      const code = codeOf(error);
      if (code !== undefined && DROPPED.has(code)) return "dropped";
      if (code !== undefined && NOT_STARTED.has(code)) return "not_started";
      return { retry: error instanceof Error ? `${code ?? "internal"}: ${error.message}` : "internal" };
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

/** Whether the job is leased in the store. One that is only reserved is unchanged there. */
function isLeased({ state }: Job): boolean {
  return state === "leased";
}

/** Whether a lane with this many jobs reserved ahead need not be read yet. */
function hasEnough(ahead: number, limit: number): boolean {
  return ahead * 2 > limit;
}

/** The hook was removed or disabled after the event, so the event is no longer for it. */
const DROPPED: ReadonlySet<string> = new Set([
  "binding.not_found",
  "binding.not_active",
  "authority.project_archived",
]);

/** Nothing was tried, so the attempt does not count. A delivery that another gateway has taken over stays with it. */
const NOT_STARTED: ReadonlySet<string> = new Set([
  "delivery.taken_over",
  "gateway_stopping",
  "request.overloaded",
  "store.unavailable",
]);

function idsOf({ session_id, chain_id, run_id, trace_id }: TraceIds): TraceIds {
  return definedFields({ session_id, chain_id, run_id, trace_id });
}
