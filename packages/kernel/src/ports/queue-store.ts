/** Outbox, jobs and leases: what moves work between the moment it is decided and the moment it is done. */
import type { Json, SemanticEvent } from "@backplane/contract";
import type { Scope } from "./scope.ts";

export interface OutboxEvent extends SemanticEvent {
  from_hook: boolean;
}

export interface OutboxStore {
  /** Committed events after `seq`, in order; one that commits late is never skipped. */
  read(after_seq: number, limit: number, scope?: Scope): Promise<OutboxEvent[]>;
  cursor(consumer: string): Promise<number>;
  /** Moves the cursor from → to and enqueues the jobs, in one transaction. False: another node was first. */
  advance(consumer: string, from: number, to: number, jobs: NewJob[]): Promise<boolean>;
  /** Called after a commit that wrote events; several commits may be one call. */
  onAppended(listener: () => void): () => void;
}

export interface NewJob {
  id: string;
  queue: string;
  /** Jobs of one group run one after the other, in the order they were enqueued. */
  group: string | null;
  payload: Json;
  run_at: number;
  max_attempts: number;
}

export interface Job extends NewJob {
  attempt: number;
  fence: number;
  last_error: string | null;
  state: "ready" | "leased" | "done" | "dead";
}

export interface JobQueue {
  enqueue(jobs: NewJob[]): Promise<void>;
  /** Leases up to `limit` due jobs: attempt and fence have risen. An expired lease is due again. */
  claim(queue: string, node_id: string, now: number, lease_ms: number, limit: number): Promise<Job[]>;
  extend(id: string, fence: number, until: number): Promise<boolean>;
  complete(id: string, fence: number): Promise<boolean>;
  /** Due again at `retry_at`, or dead when that is null or the attempts are used up. */
  fail(id: string, fence: number, error: string, retry_at: number | null): Promise<boolean>;
  dead(queue: string, limit: number): Promise<Job[]>;
  get(id: string): Promise<Job | null>;
  /** A dead job starts over with attempt counting on. */
  replay(id: string, run_at: number): Promise<boolean>;
  /** When the next job of this queue falls due; null when there is none. */
  nextDue(queue: string): Promise<number | null>;
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
