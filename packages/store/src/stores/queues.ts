import type { Json, JsonObject, SemanticEventType } from "@backplane/contract";
import type { Job, JobQueue, LeaseStore, NewJob, OutboxEvent, OutboxStore } from "@backplane/kernel/ports";
import type { Backend } from "../backend.ts";
import type { Row } from "../op.ts";
import { deadJobs, type JobRow, nextDue, readJob } from "../ops/jobs.ts";
import { readCursor, readOutbox } from "../ops/outbox.ts";
import { projectColumn, projectOf } from "./scope.ts";

const NUMBER_STEP = 1_000;

export function createOutboxStore(backend: Backend): OutboxStore {
  return {
    async read(after_seq, limit, scope) {
      if (backend.dialect === "postgres") {
        while ((await backend.write("numberEvents", { limit: NUMBER_STEP })) === NUMBER_STEP);
      }
      const rows = await backend.read((dialect) =>
        readOutbox(
          {
            after: after_seq,
            limit,
            org_id: scope?.org_id ?? null,
            project_id: projectColumn(scope?.project_id ?? null),
          },
          dialect,
        ),
      );
      return rows.map(decodeEvent);
    },
    cursor: (consumer) => backend.read(() => readCursor(consumer)),
    advance: (consumer, from, to, jobs) =>
      backend.write("advanceCursor", { consumer, from, to, jobs: jobs.map(encodeJob) }),
    onAppended: (listener) => backend.onAppended(listener),
  };
}

export function createJobQueue(backend: Backend): JobQueue {
  return {
    enqueue: (jobs) => backend.write("enqueueJobs", jobs.map(encodeJob)),
    async claim(queue, node_id, now, lease_ms, limit) {
      const rows = await backend.write("claimJobs", { queue, node_id, now, lease_ms, limit });
      return rows.map(decodeJob);
    },
    extend: (id, fence, until) => backend.write("extendJob", { id, fence, until }),
    complete: (id, fence) => backend.write("completeJob", { id, fence }),
    fail: (id, fence, error, retry_at) => backend.write("failJob", { id, fence, error, retry_at }),
    async dead(queue, limit) {
      return (await backend.read(() => deadJobs(queue, limit))).map(decodeJob);
    },
    async get(id) {
      const row = await backend.read(() => readJob(id));
      return row === undefined ? null : decodeJob(row);
    },
    replay: (id, run_at) => backend.write("replayJob", { id, run_at }),
    nextDue: (queue) => backend.read(() => nextDue(queue)),
  };
}

export function createLeaseStore(backend: Backend): LeaseStore {
  return {
    acquire: (name, holder, now, ttl_ms) => backend.write("acquireLease", { name, holder, now, ttl_ms }),
    acquireSlot: (name, max, holder, now, ttl_ms) =>
      backend.write("acquireSlot", { name, max, holder, now, ttl_ms }),
    renew: (names, holder, now, ttl_ms) => backend.write("renewLeases", { names, holder, now, ttl_ms }),
    release: (name, holder) => backend.write("releaseLease", { name, holder }),
  };
}

function decodeEvent(row: Row): OutboxEvent {
  return {
    id: row.id as string,
    seq: row.seq as number,
    type: row.type as SemanticEventType,
    org_id: row.org_id as string,
    project_id: projectOf(row.project_id),
    occurred_at: new Date(row.occurred_at as number).toISOString(),
    subject: { kind: row.subject_kind as string, id: row.subject_id as string },
    summary: JSON.parse(row.summary as string) as JsonObject,
    from_hook: row.from_hook === 1,
  };
}

function encodeJob(job: NewJob): JobRow {
  return {
    id: job.id,
    queue: job.queue,
    group: job.group,
    payload: JSON.stringify(job.payload),
    run_at: job.run_at,
    max_attempts: job.max_attempts,
  };
}

function decodeJob(row: Row): Job {
  return {
    id: row.id as string,
    queue: row.queue as string,
    group: row.group_name as string | null,
    payload: JSON.parse(row.payload as string) as Json,
    run_at: row.run_at as number,
    max_attempts: row.max_attempts as number,
    attempt: row.attempt as number,
    fence: row.fence as number,
    last_error: row.last_error as string | null,
    state: row.state as Job["state"],
  };
}
