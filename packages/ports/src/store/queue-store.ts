/** Outbox, job queue, leases and retention. */
import type { Json, SemanticEvent } from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";
import type { ChangeRecords } from "./change-records.ts";

export interface OutboxEvent extends SemanticEvent {
  from_hook: boolean;
}

/** A summary of the events after a cursor. */
export interface OutboxSummary {
  last_seq: number;
  count: number;
  /** Excludes events caused by a hook's own call. */
  kinds: (Scope & { type: SemanticEvent["type"] })[];
}

export interface OutboxStore {
  /** Committed events after `after_seq`, in order. An event that commits late is never skipped. */
  read(after_seq: number, limit: number, scope?: Scope): Promise<OutboxEvent[]>;
  /** Summarizes the result of `read` for all orgs without loading the events, since most have no subscriber. */
  summarize(after_seq: number, limit: number): Promise<OutboxSummary | null>;
  getCursor(consumer: string): Promise<number>;
  /**
   * Moves the cursor and enqueues the jobs in one transaction. Resolves to null if another node was first, and
   * otherwise to the jobs that are due and reserved as by `JobQueue.reserve`. A store that several gateways share
   * reserves none here.
   */
  advance(consumer: string, from: number, to: number, jobs: NewJob[], now: number): Promise<Job[] | null>;
  /** Calls the listener after commits that wrote events; one call may cover several commits. */
  onAppended(listener: () => void): () => void;
}

export interface NewJob {
  id: string;
  queue: string;
  /** Lanes can be claimed separately, so that each gets a share of the workers. Absent means the lane ''. */
  lane?: string;
  /** Jobs of a group run one after another, in the order they were enqueued. */
  group: string | null;
  payload: Json;
  max_attempts: number;
  /** The tenant that can list the job; absent for a job of the gateway itself. */
  scope?: Scope;
}

export interface Job extends NewJob {
  lane: string;
  run_at: number;
  attempt: number;
  fence: number;
  last_error: string | null;
  state: JobState;
  /** The call of the last attempt that was started. */
  invocation_id: string | null;
  ended_at: number | null;
}

export type JobState = "ready" | "leased" | "done" | "dead" | "discarded";

/**
 * `now` is the caller's clock. A shared store uses its own clock instead, because the clocks of nodes differ; times are
 * therefore passed as durations from now. The same applies to leases, orphans and idempotency keys.
 */
export interface JobQueue {
  /** The jobs are due immediately. */
  enqueue(jobs: NewJob[], now: number): Promise<void>;
  /**
   * Leases up to `limit` due jobs of one lane or of any lane, and raises their attempt and fence. A job with an expired
   * lease is due again, unless `ready_only` is set.
   */
  claim(
    queue: string,
    node_id: string,
    now: number,
    lease_ms: number,
    limit: number,
    lane?: string,
    ready_only?: boolean,
  ): Promise<Job[]>;
  /**
   * Chooses up to `limit` due jobs of a lane, without those in `held`, to be started with `invocations.open`. They are
   * returned with the attempt and fence that this start will give them. A store that several gateways share leases the
   * jobs here. With one gateway the start leases them, which saves one write for each job.
   */
  reserve(
    queue: string,
    node_id: string,
    now: number,
    lease_ms: number,
    limit: number,
    lane: string,
    ready_only: boolean,
    held: ReadonlySet<string>,
  ): Promise<Job[]>;
  extend(id: string, fence: number, now: number, lease_ms: number): Promise<boolean>;
  complete(id: string, fence: number, now: number): Promise<boolean>;
  /** The job is due again after `retry_ms`, or dead if `retry_ms` is null or no attempts are left. */
  fail(id: string, fence: number, error: string, now: number, retry_ms: number | null): Promise<boolean>;
  listDead(queue: string, limit: number): Promise<Job[]>;
  get(id: string): Promise<Job | null>;
  /**
   * Releases a leased or reserved job, which is due again after `delay_ms`. An attempt that was not started does not
   * count. Neither does a started attempt whose call `never_ran` or was `refused`; the next attempt then has the same
   * number or, after `refused`, a higher one.
   */
  release(
    id: string,
    fence: number,
    now: number,
    delay_ms: number,
    uncounted?: "never_ran" | "refused",
  ): Promise<boolean>;
  /** Ends a leased or reserved job that will not be run. `error` is the reason. */
  discardHeld(id: string, fence: number, error: string, now: number): Promise<boolean>;
  /** Makes the jobs that dead nodes have leased due now. Resolves to their number. */
  releaseOrphans(queue: string, node_id: string, now: number): Promise<number>;
  /** Makes a dead job due again; its attempt count continues. */
  replay(id: string, now: number, records?: ChangeRecords): Promise<boolean>;
  /** Ends a ready or dead job without running it. Resolves to false for a job in another state. */
  discard(id: string, now: number, records?: ChangeRecords): Promise<boolean>;
  /** Jobs that belong to the scope, newest first. */
  list(scope: Scope, filter: { state?: JobState; lane?: string }, page: Page): Promise<PageOf<Job>>;
  /** Lanes with jobs, most urgent first, with the time in ms until their next job is due; 0 or less means now. */
  listLanes(queue: string, now: number): Promise<{ lane: string; due_in: number; org_id: string }[]>;
}

export interface LeaseStore {
  /**
   * Resolves to the fencing token, which is higher than all earlier ones for this name, or to null while another holder
   * has the lease.
   */
  acquire(name: string, holder: string, now: number, ttl_ms: number): Promise<number | null>;
  /** Acquires one of the slots `name#0 … name#max-1`; resolves to null if all are held. */
  acquireSlot(
    name: string,
    max: number,
    holder: string,
    now: number,
    ttl_ms: number,
  ): Promise<{ name: string; fence: number } | null>;
  renew(names: string[], holder: string, now: number, ttl_ms: number): Promise<number>;
  release(name: string, holder: string): Promise<boolean>;
}

/** Removes expired rows. Each call is one bounded step and resolves to the number of removed rows. */
export interface RetentionStore {
  removeJobs(
    state: "done" | "dead" | "discarded",
    now: number,
    keep_ms: number,
    limit: number,
  ): Promise<number>;
  /**
   * Discards jobs of a lane that have been due for longer than `keep_ms`. Jobs behind another one of their group are
   * discarded by a later step, so the caller repeats the step until it resolves to 0.
   */
  discardOverdue(
    queue: string,
    lane: string,
    error: string,
    now: number,
    keep_ms: number,
    limit: number,
  ): Promise<number>;
  /** Never removes events after the slowest cursor. */
  removeEvents(now: number, keep_ms: number, limit: number): Promise<number>;
  /** Removes delegated tokens that expired more than `keep_ms` ago. */
  removeDelegations(now: number, keep_ms: number, limit: number): Promise<number>;
  /**
   * Removes progress events of ended calls with ids from `after` to `id_before`. Returns the next `after`, null at
   * the end.
   */
  removeProgress(
    after: string,
    id_before: string,
    ended_before: string,
    limit: number,
  ): Promise<{ removed: number; after: string | null }>;
}
