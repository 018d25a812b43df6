import type { Invocation, InvocationEvent } from "@backplane/contract";
import type { ChangeRecords, InvocationRow, InvocationStore, Settlement } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import {
  countCalls,
  listInvocations,
  listTrace,
  readInvocation,
  readProgress,
} from "../ops/invocation-reads.ts";
import { listOrphans, type SettleInvocation } from "../ops/invocations.ts";
import type { Row } from "../ops/op.ts";
import { decodeApproval, encodeApproval } from "./approvals.ts";
import { encodeRecords } from "./change-records.ts";
import { encodeDelegation } from "./delegations.ts";
import { encodeExecution } from "./executions.ts";
import { encodeClaim } from "./idempotency.ts";
import { decodeInvocation, encodeBody, encodeInvocation, encodeOutcome } from "./invocation-row.ts";
import { pageCursor, toPage } from "./page.ts";
import { encodeRun, encodeRunEnd } from "./runs.ts";
import { projectColumn } from "./scope.ts";
import { encodeTape } from "./session-row.ts";

export function createInvocationStore(backend: Backend): InvocationStore {
  return {
    open(row, open_records) {
      const written = backend.write("openInvocation", {
        row: encodeInvocation(row),
        trace_id: row.shares_trace === true ? row.trace_id : null,
        approval: open_records.approval === undefined ? null : encodeApproval(open_records.approval),
        delegation: encodeDelegation(open_records.delegation),
        tape: open_records.tape === undefined ? null : encodeTape(open_records.tape),
        once: encodeClaim(backend, open_records.once, open_records.run === undefined ? row.id : undefined),
        execution: encodeExecution(open_records.execution, row.id, open_records.run?.row.id ?? row.run_id),
        run:
          open_records.run === undefined
            ? null
            : { columns: encodeRun(open_records.run.row), own_entries: open_records.run.own_entries },
        job:
          open_records.job === undefined
            ? null
            : { ...open_records.job, leased_until: open_records.job.leased_until ?? null },
        records: encodeRecords(open_records.records),
      });
      // The most frequent write: without events it returns the promise unwrapped (benchmark http.invoke).
      if (open_records.records.events === undefined) return written;
      return written.then((tape) => {
        backend.notifyAppended();
        return tape;
      });
    },
    start: (id, fence, started_at, { delegation }) =>
      backend.write("startInvocation", {
        id,
        fence,
        started_at,
        delegation: encodeDelegation(delegation),
      }),
    async replaceApproval(row, approval, records) {
      const written = await backend.write("replaceApproval", {
        id: row.id,
        fence: row.fence,
        body: encodeBody(row),
        approval: encodeApproval(approval),
        records: encodeRecords(records),
      });
      if (written && records.events !== undefined) backend.notifyAppended();
      return written;
    },
    recordRetry: (row, renewed) =>
      backend.write("recordRetry", {
        id: row.id,
        fence: row.fence,
        retry_count: row.retry_count,
        body: encodeBody(row),
        renewed: renewed === undefined ? null : { delegation: encodeDelegation(renewed.delegation) },
      }),
    recordFallback: (row, renewed) =>
      backend.write("recordFallback", {
        id: row.id,
        fence: row.fence,
        binding_id: row.binding_id,
        retry_count: row.retry_count,
        body: encodeBody(row),
        delegation: encodeDelegation(renewed.delegation),
      }),
    async settle(id, fence, end, records, delivered) {
      const settlement = encodeSettlement(id, fence, end, records);
      if (delivered !== undefined) settlement.job = { ...delivered, now: backend.selectTime(delivered.now) };
      const written = await backend.write("settleInvocation", settlement);
      if (written && records.events !== undefined) backend.notifyAppended();
      return written;
    },
    async settleWithTape(id, fence, end, records, tape) {
      const written = await backend.write("settleWithTape", {
        settle: encodeSettlement(id, fence, end, records),
        tape: encodeTape(tape),
      });
      if (written !== null && records.events !== undefined) backend.notifyAppended();
      return written;
    },
    async settleHarness(id, fence, end, records, { execution_id, checkpoint, run }) {
      const written = await backend.write("settleHarness", {
        settle: encodeSettlement(id, fence, end, records),
        execution_id,
        checkpoint: checkpoint === null ? null : JSON.stringify(checkpoint),
        run:
          run === null
            ? null
            : {
                id: run.id,
                status: run.end.status,
                outcome: encodeRunEnd(run.end),
                tape: run.tape === null ? null : encodeTape(run.tape),
              },
      });
      if (written !== null && records.events !== undefined) backend.notifyAppended();
      return written;
    },
    async get(scope, id) {
      const row = await backend.read(() => readInvocation(id, scope.org_id, projectColumn(scope.project_id)));
      return row === undefined ? null : decodeInvocation(row);
    },
    async list(scope, filter, page) {
      const { rows, resume } = await backend.read(() =>
        listInvocations({
          org_id: scope.org_id,
          project_id: projectColumn(scope.project_id),
          filter: {
            statuses: filter.status === undefined ? [] : [filter.status].flat(),
            export_id: filter.export_id ?? "",
            session_id: filter.session_id ?? "",
            binding_id: filter.binding_id ?? "",
          },
          before: pageCursor(page),
          limit: page.limit + 1,
        }),
      );
      const invocation_page = toPage(rows, page, (row) => row.id as string, decodePublicInvocation);
      // If the scan stopped early, the page is not full, but there may be more rows: the next page continues at `resume`.
      return { items: invocation_page.items, next: invocation_page.next ?? resume };
    },
    async listTrace(scope, trace_id, page) {
      const rows = await backend.read(() =>
        listTrace({
          org_id: scope.org_id,
          project_id: projectColumn(scope.project_id),
          trace_id,
          after: page.after ?? "",
          limit: page.limit + 1,
        }),
      );
      return toPage(rows, page, (row) => row.id as string, decodeInvocation);
    },
    async countCalls(scope, latest) {
      const project_id = projectColumn(scope.project_id);
      const rows = await backend.read(() => countCalls({ org_id: scope.org_id, project_id, latest }));
      const calls = new Map<string, number>();
      for (const row of rows) {
        const name = row.export_id as string;
        calls.set(name, (calls.get(name) ?? 0) + Number(row.calls));
      }
      return calls;
    },
    appendEvents(id, events) {
      backend.bufferProgress(events.map((item) => [id, item.seq, item.at, JSON.stringify(item.event)]));
    },
    async listEvents(id, after_seq, limit) {
      const rows = await backend.read(() => readProgress(id, after_seq, limit));
      return rows.map((row) => ({
        seq: row.seq as number,
        at: row.at as string,
        event: JSON.parse(row.event as string) as InvocationEvent["event"],
      }));
    },
    async listOrphans(status, node_id, now, limit) {
      const query = { status, node_id, now: backend.selectTime(now), limit, skipped: null };
      return (await backend.read((dialect) => listOrphans(query, dialect))).map(decodeInvocation);
    },
    async claimOrphans(node_id, now, limit, skipped = []) {
      const rows = await backend.write("claimInvocations", {
        status: "running",
        node_id,
        now: backend.selectTime(now),
        limit,
        skipped: encodeSkipped(skipped),
      });
      return rows.map(decodeInvocation).sort(byId);
    },
    async claimWaiting(node_id, now, limit, skipped = []) {
      const pairs = await backend.write("claimWaiting", {
        node_id,
        now: backend.selectTime(now),
        limit,
        skipped: encodeSkipped(skipped),
      });
      return pairs
        .map((pair) => ({ row: decodeInvocation(pair.row), approval: decodeApproval(pair.approval) }))
        .sort((a, b) => byId(a.row, b.row));
    },
  };
}

function encodeSkipped(ids: readonly string[]): string | null {
  return ids.length === 0 ? null : JSON.stringify(ids);
}

function encodeSettlement(
  id: string,
  fence: number,
  end: Settlement,
  records: ChangeRecords,
): SettleInvocation {
  return {
    id,
    fence,
    status: end.status,
    retry_count: end.retry_count,
    started_at: end.started_at,
    outcome: encodeOutcome(end),
    records: encodeRecords(records),
    job: null,
  };
}

/** Removes the fields that are internal to the gateway. */
function decodePublicInvocation(row: Row): Invocation {
  const {
    node_id: _node,
    fence: _fence,
    delivery_id: _delivery,
    turn: _turn,
    depth: _depth,
    role: _role,
    channel: _channel,
    within: _within,
    harness_run: _harness_run,
    ...invocation
  } = decodeInvocation(row);
  return invocation;
}

function byId(a: InvocationRow, b: InvocationRow): number {
  return a.id < b.id ? -1 : 1;
}
