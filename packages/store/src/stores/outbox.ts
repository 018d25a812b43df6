import type { JsonObject, SemanticEventType } from "@backplane/contract";
import type { OutboxEvent, OutboxStore, OutboxSummary, TraceIds } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import type { Row } from "../ops/op.ts";
import { readCursor, readOutbox, summarizeOutbox } from "../ops/outbox.ts";
import { encodeJob, toReservedJob } from "./jobs.ts";
import { projectColumn, projectOf } from "./scope.ts";

const NUMBER_STEP = 1_000;

export function createOutboxStore(backend: Backend): OutboxStore {
  const numberEvents = async () => {
    while ((await backend.write("numberEvents", { limit: NUMBER_STEP })) === NUMBER_STEP);
  };
  return {
    async read(after_seq, limit, scope) {
      if (backend.dialect === "postgres") await numberEvents();
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
    async summarize(after_seq, limit) {
      if (backend.dialect === "postgres") await numberEvents();
      const rows = await backend.read((dialect) => summarizeOutbox(after_seq, limit, dialect));
      if (rows.length === 0) return null;
      const summary: OutboxSummary = { last_seq: 0, count: 0, kinds: [] };
      for (const row of rows) {
        summary.last_seq = Math.max(summary.last_seq, row.last_seq as number);
        summary.count += row.event_count as number;
        if (row.from_hook === 0) {
          const type = row.type as SemanticEventType;
          summary.kinds.push({ org_id: row.org_id as string, project_id: projectOf(row.project_id), type });
        }
      }
      return summary;
    },
    getCursor: (consumer) => backend.read(() => readCursor(consumer)),
    async advance(consumer, from, to, jobs, now) {
      const due = await backend.write("advanceCursor", {
        consumer,
        from,
        to,
        jobs: jobs.map(encodeJob),
        now: backend.selectTime(now),
      });
      return due === null ? null : due.map((index) => toReservedJob(jobs[index]!, now));
    },
    onAppended: (listener) => backend.onAppended(listener),
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
    ...(row.ids === null ? {} : (JSON.parse(row.ids as string) as TraceIds)),
    from_hook: row.from_hook === 1,
  };
}
