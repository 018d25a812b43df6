/**
 * Deletes old data about once an hour: finished jobs, deliveries that have waited too long for a paused or disabled hook,
 * old events that every consumer has read, progress events of calls that ended long ago, expired tokens and
 * Idempotency-Keys, unreferenced package bytes and old result files. Rows are deleted by one node at a time, in small
 * steps with pauses, so that writers do not wait. Never deletes calls, tapes or the audit log.
 */

import { idAt } from "@backplane/contract";
import type { KernelDeps, Timer } from "@backplane/ports";
import { acceptsDeliveries, DELIVERIES_QUEUE } from "../outbox/deliver.ts";

const LEASE = "retention";
const LEASE_MS = 600_000;
/** Much less than the lease. The next sweep continues where this one stopped. */
const MAX_SWEEP_MS = 300_000;
const STEP_ROWS = 500;
const PAUSE_MS = 20;
/** Expired tokens are kept for a day: they expire by the wall clock, and a running call may outlast that time. */
const DELEGATIONS_MS = 86_400_000;
const WAITED_TOO_LONG =
  "binding.not_active: The hook was paused or disabled for longer than dead letters are kept (retention.dead_jobs_days).";

export class Retention {
  readonly #deps: KernelDeps;
  #running: Promise<void> | null = null;
  #stopped = false;
  #pausing: { timer: Timer; wake(): void } | null = null;

  constructor(deps: KernelDeps) {
    this.#deps = deps;
  }

  /** Starts a sweep in the background, unless one is running. */
  start(): void {
    if (this.#running !== null || this.#stopped) return;
    this.#running = this.sweep()
      .catch((error: unknown) => {
        this.#deps.log.warn({ err: error }, "retention sweep failed; retrying at the next sweep");
      })
      .finally(() => {
        this.#running = null;
      });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#pausing?.timer.stop();
    this.#pausing?.wake();
    await this.#running;
  }

  async sweep(): Promise<void> {
    const { store, clock, node_id, log } = this.#deps;
    // No lease is needed for this: each node has its own files, and several nodes may sweep the files in the database.
    const blobs = await this.#sweepBlobs();
    let removed = 0;
    if ((await store.leases.acquire(LEASE, node_id, clock.now(), LEASE_MS)) !== null) {
      try {
        removed = await this.#sweepRows();
      } finally {
        await store.leases.release(LEASE, node_id);
      }
    }
    if (removed + blobs > 0) log.info({ rows: removed, blobs }, "deleted expired data");
  }

  async #sweepRows(): Promise<number> {
    const { store, clock, host } = this.#deps;
    const { retention } = store;
    const limits = host.retention;
    const deadline = clock.monotonic() + MAX_SWEEP_MS;
    const now = () => clock.now();
    let removed = await store.idempotency.sweep(now());
    removed += await this.#drain(deadline, () =>
      retention.removeDelegations(now(), DELEGATIONS_MS, STEP_ROWS),
    );
    if (limits.dead_jobs_ms > 0)
      removed += await this.#drain(deadline, () =>
        retention.removeJobs("dead", now(), limits.dead_jobs_ms, STEP_ROWS),
      );
    if (limits.dead_jobs_ms > 0) removed += await this.#discardWaiting(deadline, limits.dead_jobs_ms);
    if (limits.done_jobs_ms > 0)
      for (const state of ["done", "discarded"] as const)
        removed += await this.#drain(deadline, () =>
          retention.removeJobs(state, now(), limits.done_jobs_ms, STEP_ROWS),
        );
    if (limits.progress_ms > 0) removed += await this.#sweepProgress(deadline, now() - limits.progress_ms);
    if (limits.outbox_ms > 0)
      removed += await this.#drain(deadline, () =>
        retention.removeEvents(now(), limits.outbox_ms, STEP_ROWS),
      );
    return removed;
  }

  /** Discards deliveries that have waited for a paused or disabled hook for longer than dead deliveries are kept. */
  async #discardWaiting(deadline: number, keep_ms: number): Promise<number> {
    const { store, clock } = this.#deps;
    let discarded = 0;
    for (const { lane, org_id } of await store.jobs.listLanes(DELIVERIES_QUEUE, clock.now())) {
      const bound = org_id === "" ? null : await store.bindings.get({ org_id, project_id: null }, lane);
      if (bound === null || acceptsDeliveries(bound.binding)) continue;
      const step = () =>
        store.retention.discardOverdue(
          DELIVERIES_QUEUE,
          lane,
          WAITED_TOO_LONG,
          clock.now(),
          keep_ms,
          STEP_ROWS,
        );
      for (let count = await step(); count > 0; count = await step()) {
        discarded += count;
        if (this.#isOver(deadline)) return discarded;
        await this.#pause();
      }
    }
    return discarded;
  }

  async #drain(deadline: number, step: () => Promise<number>): Promise<number> {
    for (let removed = 0; ; ) {
      const count = await step();
      removed += count;
      if (count < STEP_ROWS || this.#isOver(deadline)) return removed;
      await this.#pause();
    }
  }

  async #sweepProgress(deadline: number, ended_before: number): Promise<number> {
    const { retention } = this.#deps.store;
    const id_before = idAt("invocation", ended_before);
    const date = new Date(ended_before).toISOString();
    let removed = 0;
    for (let after: string | null = ""; ; ) {
      const step: { removed: number; after: string | null } = await retention.removeProgress(
        after,
        id_before,
        date,
        STEP_ROWS,
      );
      removed += step.removed;
      after = step.after;
      if (after === null || this.#isOver(deadline)) return removed;
      await this.#pause();
    }
  }

  async #sweepBlobs(): Promise<number> {
    const { artifacts, importer, store, host } = this.#deps;
    const { artifacts_ms, blobs_ms } = host.retention;
    const count = artifacts_ms === 0 ? 0 : ((await artifacts?.sweep(artifacts_ms)) ?? 0);
    if (blobs_ms === 0 || importer.sweep === undefined) return count;
    return count + (await importer.sweep((digest) => store.packages.isDigestInUse(digest), blobs_ms));
  }

  #isOver(deadline: number): boolean {
    return this.#stopped || this.#deps.clock.monotonic() >= deadline;
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#pausing = null;
        resolve();
      };
      this.#pausing = { timer: this.#deps.clock.after(PAUSE_MS, wake), wake };
      if (this.#stopped) wake();
    });
  }
}
