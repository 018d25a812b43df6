/** Outbox, jobs and leases: what moves work between the moment it is decided and the moment it is done. */
import type { Json, SemanticEvent } from "@backplane/contract";
import type { Scope } from "../scope/scope.ts";

export interface OutboxEvent extends SemanticEvent {
  from_hook: boolean;
}

/** What lies ahead of a cursor, by kind. */
export interface OutboxSurvey {
  last_seq: number;
  amount: number;
  /** Without those that a hook's own call caused. */
  kinds: (Scope & { type: SemanticEvent["type"] })[];
}

export interface OutboxStore {
  /** Committed events after `seq`, in order; one that commits late is never skipped. */
  read(after_seq: number, limit: number, scope?: Scope): Promise<OutboxEvent[]>;
  /** What `read` would answer for all orgs, counted instead of read: most events interest nobody. */
  survey(after_seq: number, limit: number): Promise<OutboxSurvey | null>;
  cursor(consumer: string): Promise<number>;
  /** Moves the cursor from → to and enqueues the jobs, in one transaction. False: another node was first. */
  advance(consumer: string, from: number, to: number, jobs: NewJob[], now: number): Promise<boolean>;
  /** Called after a commit that wrote events; several commits may be one call. */
  onAppended(listener: () => void): () => void;
}

export interface NewJob {
  id: string;
  queue: string;
  /** Jobs of one lane can be claimed apart, so that it has a share of the workers; '' or none is a lane too. */
  lane?: string;
  /** Jobs of one group run one after the other, in the order they were enqueued. */
  group: string | null;
  payload: Json;
  max_attempts: number;
}

export interface Job extends NewJob {
  lane: string;
  run_at: number;
  attempt: number;
  fence: number;
  last_error: string | null;
  state: "ready" | "leased" | "done" | "dead";
}

/**
 * `now` is the caller's clock. A store that several nodes share goes by its own clock instead, since theirs differ;
 * so everything here is told in spans of time from now. The same holds for leases, orphans and idempotency keys.
 */
export interface JobQueue {
  /** Due at once. */
  enqueue(jobs: NewJob[], now: number): Promise<void>;
  /**
   * Leases up to `limit` due jobs, of one lane or of any: attempt and fence have risen. An expired lease is due again,
   * unless `ready_only`.
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
  extend(id: string, fence: number, now: number, lease_ms: number): Promise<boolean>;
  complete(id: string, fence: number, now: number): Promise<boolean>;
  /** Due again after `retry_ms`, or dead when that is null or the attempts are used up. */
  fail(id: string, fence: number, error: string, now: number, retry_ms: number | null): Promise<boolean>;
  dead(queue: string, limit: number): Promise<Job[]>;
  get(id: string): Promise<Job | null>;
  /** A dead job starts over with attempt counting on. */
  replay(id: string, now: number): Promise<boolean>;
  /** The lanes with work, the most urgent first, and in how many ms each has some; 0 or less is now. */
  lanes(queue: string, now: number): Promise<{ lane: string; due_in: number }[]>;
}

export interface LeaseStore {
  /** The fencing token, higher than any before for this name; null while another holds it. */
  acquire(name: string, holder: string, now: number, ttl_ms: number): Promise<number | null>;
  /** One of the slots `name#0 … name#max-1`; null when all are held. */
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

/** Removes what has been kept long enough: one bounded step a call, answering how many rows went. */
export interface RetentionStore {
  jobs(state: "done" | "dead", now: number, keep_ms: number, limit: number): Promise<number>;
  /** Never past the slowest cursor. */
  outbox(now: number, keep_ms: number, limit: number): Promise<number>;
  /** By their own expiry. */
  delegations(now: number, keep_ms: number, limit: number): Promise<number>;
  /** Progress of ended calls, from id `after` up to `id_before`; answers where to go on, null at the end. */
  progress(
    after: string,
    id_before: string,
    ended_before: string,
    limit: number,
  ): Promise<{ removed: number; after: string | null }>;
}
