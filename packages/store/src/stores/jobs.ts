import type { Json } from "@backplane/contract";
import type { Job, JobQueue, NewJob } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { type JobRow, listDeadJobs, listDueJobs, listDueLanes, listJobs, readJob } from "../ops/jobs.ts";
import type { Row } from "../ops/op.ts";
import { encodeRecords } from "./change-records.ts";
import { pageCursor, toPage } from "./page.ts";
import { projectColumn, projectOf } from "./scope.ts";

export function createJobQueue(backend: Backend): JobQueue {
  const claim = async (
    [queue, node_id, now, lease_ms, limit, lane, ready_only = false]: Parameters<JobQueue["claim"]>,
    held: string | null = null,
  ): Promise<Job[]> => {
    const rows = await backend.write("claimJobs", {
      queue,
      lane: lane ?? null,
      node_id,
      now: backend.selectTime(now),
      lease_ms,
      limit,
      ready_only,
      held,
    });
    return rows.map(decodeJob);
  };
  return {
    async enqueue(jobs, now) {
      await backend.write("enqueueJobs", { jobs: jobs.map(encodeJob), now: backend.selectTime(now) });
    },
    claim: (...parameters) => claim(parameters),
    async reserve(queue, node_id, now, lease_ms, limit, lane, ready_only, held) {
      if (backend.dialect === "sqlite") {
        const due = { queue, lane, now: backend.selectTime(now), limit, ready_only };
        const excluded = JSON.stringify([...held]);
        const rows = await backend.read(() => listDueJobs({ ...due, held: excluded }));
        if (rows.every(canBeReserved)) return rows.map(decodeReserved);
        // An expired lease has to be taken over by a write, which also ends jobs that have no attempts left.
        return await claim([queue, node_id, now, lease_ms, limit, lane, ready_only], excluded);
      }
      const claimed = await claim([queue, node_id, now, lease_ms, limit + held.size, lane, ready_only]);
      return claimed.filter(({ id }) => !held.has(id));
    },
    extend: (id, fence, now, lease_ms) =>
      backend.write("extendJob", { id, fence, now: backend.selectTime(now), lease_ms }),
    complete: (id, fence, now) => backend.write("completeJob", { id, fence, now: backend.selectTime(now) }),
    fail: (id, fence, error, now, retry_ms) =>
      backend.write("failJob", {
        id,
        fence,
        error,
        now: backend.selectTime(now),
        retry_ms: retry_ms === null ? null : Math.round(retry_ms),
      }),
    async listDead(queue, limit) {
      return (await backend.read(() => listDeadJobs(queue, limit))).map(decodeJob);
    },
    async get(id) {
      const row = await backend.read(() => readJob(id));
      return row === undefined ? null : decodeJob(row);
    },
    release: (id, fence, now, delay_ms, uncounted) =>
      backend.write("releaseJob", {
        id,
        fence,
        now: backend.selectTime(now),
        delay_ms: Math.round(delay_ms),
        uncounted: uncounted ?? null,
      }),
    discardHeld: (id, fence, error, now) =>
      backend.write("discardHeldJob", { id, fence, error, now: backend.selectTime(now) }),
    releaseOrphans: (queue, node_id, now) =>
      backend.write("releaseOrphanJobs", { queue, node_id, now: backend.selectTime(now) }),
    replay: (id, now, records = {}) =>
      backend.write("replayJob", { id, now: backend.selectTime(now), records: encodeRecords(records) }),
    discard: (id, now, records = {}) =>
      backend.write("discardJob", { id, now: backend.selectTime(now), records: encodeRecords(records) }),
    async list(scope, filter, page) {
      const rows = await backend.read(() =>
        listJobs({
          org_id: scope.org_id,
          project_id: projectColumn(scope.project_id),
          state: filter.state ?? "",
          lane: filter.lane ?? "",
          before: pageCursor(page),
          limit: page.limit + 1,
        }),
      );
      return toPage(rows, page, (row) => row.id as string, decodeJob);
    },
    async listLanes(queue, now) {
      const rows = await backend.read((dialect) => listDueLanes(queue, backend.selectTime(now), dialect));
      return rows.map((row) => ({
        lane: row.lane as string,
        due_in: row.due_in as number,
        org_id: row.org_id as string,
      }));
    },
  };
}

export function encodeJob(job: NewJob): JobRow {
  return {
    id: job.id,
    queue: job.queue,
    lane: job.lane ?? "",
    group: job.group,
    payload: JSON.stringify(job.payload),
    max_attempts: job.max_attempts,
    org_id: job.scope?.org_id ?? "",
    project_id: projectColumn(job.scope?.project_id ?? null),
  };
}

/** A job that has just been enqueued, as `reserve` would return it. */
export function toReservedJob(job: NewJob, now: number): Job {
  return {
    id: job.id,
    queue: job.queue,
    lane: job.lane ?? "",
    group: job.group,
    payload: job.payload,
    run_at: now,
    max_attempts: job.max_attempts,
    attempt: 1,
    fence: 1,
    last_error: null,
    state: "ready",
    invocation_id: null,
    ended_at: null,
    ...(job.scope === undefined ? {} : { scope: job.scope }),
  };
}

function canBeReserved(row: Row): boolean {
  return row.state === "ready" && (row.attempt as number) < (row.last_attempt as number);
}

/** The job as the start of its next attempt will write it. */
function decodeReserved(row: Row): Job {
  const job = decodeJob(row);
  job.attempt++;
  job.fence++;
  return job;
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
    invocation_id: row.invocation_id as string | null,
    ended_at: row.ended_at as number | null,
    ...(row.org_id === ""
      ? {}
      : { scope: { org_id: row.org_id as string, project_id: projectOf(row.project_id) } }),
  };
}
