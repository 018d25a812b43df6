/**
 * Lets go of what is over, hourly: finished jobs, events that everybody has read, progress of calls that ended long
 * ago, tokens and keys that have expired, package bytes that nothing refers to, files that results referred to long
 * ago. In small steps with a pause after each, so that no writer waits; by one node at a time. Calls, tapes and the
 * audit log are never touched.
 */

import { idAt } from "@backplane/contract";
import type { KernelDeps, Timer } from "@backplane/ports";

const LEASE = "retention";
const LEASE_MS = 600_000;
/** Well inside the lease; what is left then goes at the next sweep. */
const SWEEP_MS = 300_000;
const STEP = 500;
const PAUSE_MS = 20;
/** A call that runs may outlast its token's expiry, for that goes by the wall clock. */
const DELEGATIONS_MS = 86_400_000;

export class Retention {
  readonly #deps: KernelDeps;
  #running: Promise<void> | null = null;
  #stopped = false;
  #resting: { timer: Timer; wake(): void } | null = null;

  constructor(deps: KernelDeps) {
    this.#deps = deps;
  }

  /** Begins a sweep unless one runs; nobody waits for it. */
  begin(): void {
    if (this.#running !== null || this.#stopped) return;
    this.#running = this.sweep()
      .catch((error: unknown) => {
        this.#deps.log.warn({ err: error }, "a sweep failed; it is tried again at the next one");
      })
      .finally(() => {
        this.#running = null;
      });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#resting?.timer.stop();
    this.#resting?.wake();
    await this.#running;
  }

  async sweep(): Promise<void> {
    const { store, clock, node_id, log } = this.#deps;
    // Each home has bytes of its own; those that gateways share go with whoever is first.
    const blobs = await this.#blobs();
    let removed = 0;
    if ((await store.leases.acquire(LEASE, node_id, clock.now(), LEASE_MS)) !== null) {
      try {
        removed = await this.#rows();
      } finally {
        await store.leases.release(LEASE, node_id);
      }
    }
    if (removed + blobs > 0) log.info({ rows: removed, blobs }, "let go of what was kept long enough");
  }

  async #rows(): Promise<number> {
    const { store, clock, host } = this.#deps;
    const { retention } = store;
    const keep = host.retention;
    const until = clock.monotonic() + SWEEP_MS;
    const now = () => clock.now();
    let removed = await store.idempotency.sweep(now());
    removed += await this.#drain(until, () => retention.delegations(now(), DELEGATIONS_MS, STEP));
    if (keep.dead_jobs_ms > 0)
      removed += await this.#drain(until, () => retention.jobs("dead", now(), keep.dead_jobs_ms, STEP));
    if (keep.done_jobs_ms > 0)
      removed += await this.#drain(until, () => retention.jobs("done", now(), keep.done_jobs_ms, STEP));
    if (keep.progress_ms > 0) removed += await this.#progress(until, now() - keep.progress_ms);
    if (keep.outbox_ms > 0)
      removed += await this.#drain(until, () => retention.outbox(now(), keep.outbox_ms, STEP));
    return removed;
  }

  async #drain(until: number, step: () => Promise<number>): Promise<number> {
    for (let removed = 0; ; ) {
      const gone = await step();
      removed += gone;
      if (gone < STEP || this.#over(until)) return removed;
      await this.#rest();
    }
  }

  async #progress(until: number, ended_before: number): Promise<number> {
    const { retention } = this.#deps.store;
    const id_before = idAt("invocation", ended_before);
    const date = new Date(ended_before).toISOString();
    let removed = 0;
    for (let after: string | null = ""; ; ) {
      const step: { removed: number; after: string | null } = await retention.progress(
        after,
        id_before,
        date,
        STEP,
      );
      removed += step.removed;
      after = step.after;
      if (after === null || this.#over(until)) return removed;
      await this.#rest();
    }
  }

  async #blobs(): Promise<number> {
    const { artifacts, importer, store, host } = this.#deps;
    const { artifacts_ms, blobs_ms } = host.retention;
    const gone = artifacts_ms === 0 ? 0 : ((await artifacts?.sweep(artifacts_ms)) ?? 0);
    if (blobs_ms === 0 || importer.sweep === undefined) return gone;
    return gone + (await importer.sweep((digest) => store.packages.digestInUse(digest), blobs_ms));
  }

  #over(until: number): boolean {
    return this.#stopped || this.#deps.clock.monotonic() >= until;
  }

  #rest(): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#resting = null;
        resolve();
      };
      this.#resting = { timer: this.#deps.clock.after(PAUSE_MS, wake), wake };
      if (this.#stopped) wake();
    });
  }
}
