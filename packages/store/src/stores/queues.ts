import type { Json, JsonObject, SemanticEventType } from "@backplane/contract";
import type {
  Job,
  JobQueue,
  LeaseStore,
  NewJob,
  OutboxEvent,
  OutboxStore,
  OutboxSurvey,
} from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { deadJobs, dueLanes, type JobRow, readJob } from "../ops/jobs.ts";
import type { Row } from "../ops/op.ts";
import { readCursor, readOutbox, surveyOutbox } from "../ops/outbox.ts";
import { projectColumn, projectOf } from "./scope.ts";

const NUMBER_STEP = 1_000;

export function createOutboxStore(backend: Backend): OutboxStore {
  const number = async () => {
    while ((await backend.write("numberEvents", { limit: NUMBER_STEP })) === NUMBER_STEP);
  };
  return {
    async read(after_seq, limit, scope) {
      if (backend.dialect === "postgres") await number();
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
    async survey(after_seq, limit) {
      if (backend.dialect === "postgres") await number();
      const rows = await backend.read((dialect) => surveyOutbox(after_seq, limit, dialect));
      if (rows.length === 0) return null;
      const found: OutboxSurvey = { last_seq: 0, amount: 0, kinds: [] };
      for (const row of rows) {
        found.last_seq = Math.max(found.last_seq, row.last_seq as number);
        found.amount += row.amount as number;
        if (row.from_hook === 0) {
          const type = row.type as SemanticEventType;
          found.kinds.push({ org_id: row.org_id as string, project_id: projectOf(row.project_id), type });
        }
      }
      return found;
    },
    cursor: (consumer) => backend.read(() => readCursor(consumer)),
    advance: (consumer, from, to, jobs, now) =>
      backend.write("advanceCursor", { consumer, from, to, jobs: jobs.map(encodeJob), now: backend.at(now) }),
    onAppended: (listener) => backend.onAppended(listener),
  };
}

export function createJobQueue(backend: Backend): JobQueue {
  return {
    enqueue: (jobs, now) => backend.write("enqueueJobs", { jobs: jobs.map(encodeJob), now: backend.at(now) }),
    async claim(queue, node_id, now, lease_ms, limit, lane, ready_only = false) {
      const rows = await backend.write("claimJobs", {
        queue,
        lane: lane ?? null,
        node_id,
        now: backend.at(now),
        lease_ms,
        limit,
        ready_only,
      });
      return rows.map(decodeJob);
    },
    extend: (id, fence, now, lease_ms) =>
      backend.write("extendJob", { id, fence, now: backend.at(now), lease_ms }),
    complete: (id, fence, now) => backend.write("completeJob", { id, fence, now: backend.at(now) }),
    fail: (id, fence, error, now, retry_ms) =>
      backend.write("failJob", {
        id,
        fence,
        error,
        now: backend.at(now),
        retry_ms: retry_ms === null ? null : Math.round(retry_ms),
      }),
    async dead(queue, limit) {
      return (await backend.read(() => deadJobs(queue, limit))).map(decodeJob);
    },
    async get(id) {
      const row = await backend.read(() => readJob(id));
      return row === undefined ? null : decodeJob(row);
    },
    replay: (id, now) => backend.write("replayJob", { id, now: backend.at(now) }),
    async lanes(queue, now) {
      const rows = await backend.read((dialect) => dueLanes(queue, backend.at(now), dialect));
      return rows.map((row) => ({ lane: row.lane as string, due_in: row.due_in as number }));
    },
  };
}

export function createLeaseStore(backend: Backend): LeaseStore {
  return {
    acquire: (name, holder, now, ttl_ms) =>
      backend.write("acquireLease", { name, holder, now: backend.at(now), ttl_ms }),
    acquireSlot: (name, max, holder, now, ttl_ms) =>
      backend.write("acquireSlot", { name, max, holder, now: backend.at(now), ttl_ms }),
    renew: (names, holder, now, ttl_ms) =>
      backend.write("renewLeases", { names, holder, now: backend.at(now), ttl_ms }),
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
    lane: job.lane ?? "",
    group: job.group,
    payload: JSON.stringify(job.payload),
    max_attempts: job.max_attempts,
  };
}

function decodeJob(row: Row): Job {
  return {
    id: row.id as string,
    queue: row.queue as string,
    lane: row.lane as string,
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
