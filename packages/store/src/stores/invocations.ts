import type { Approval, Invocation, InvocationEvent } from "@backplane/contract";
import type {
  ApprovalStore,
  AskedApproval,
  DelegationStore,
  Facts,
  InvocationRow,
  InvocationStore,
  NewDelegation,
  Settlement,
} from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { listApprovals, readApproval } from "../ops/approvals.ts";
import { listInvocations, readDelegation, readInvocation, readProgress } from "../ops/invocation-reads.ts";
import type { SettleInvocation } from "../ops/invocations.ts";
import type { Row, SqlValue } from "../ops/op.ts";
import { encodeFacts } from "./facts.ts";
import {
  decodeInvocation,
  encodeDelegation,
  encodeFixed,
  encodeInvocation,
  encodeOutcome,
} from "./invocation-row.ts";
import { encodeOnce } from "./once-key.ts";
import { beforeOf, pageOf, projectColumn, projectOf } from "./scope.ts";
import { encodeTape } from "./session-row.ts";

export function createInvocationStore(backend: Backend): InvocationStore {
  return {
    open(row, also) {
      const written = backend.write("openInvocation", {
        row: encodeInvocation(row),
        approval: also.approval === undefined ? null : encodeApproval(also.approval),
        delegation: encodeDelegation(also.delegation),
        tape: also.tape === undefined ? null : encodeTape(also.tape),
        once: encodeOnce(backend, also.once, row.id),
        facts: encodeFacts(also.facts),
      });
      // The hottest write of all: no promise more than it needs.
      if (also.facts.events === undefined) return written;
      return written.then((tape) => {
        backend.appended();
        return tape;
      });
    },
    start: (id, fence, started_at, also) =>
      backend.write("startInvocation", {
        id,
        fence,
        started_at,
        delegation: encodeDelegation(also.delegation),
      }),
    async askAgain(row, approval, facts) {
      const hit = await backend.write("askAgain", {
        id: row.id,
        fence: row.fence,
        body: encodeFixed(row),
        approval: encodeApproval(approval),
        facts: encodeFacts(facts),
      });
      if (hit && facts.events !== undefined) backend.appended();
      return hit;
    },
    retried: (id, fence, retry_count, renewed) =>
      backend.write("retriedInvocation", {
        id,
        fence,
        retry_count,
        renewed: renewed === undefined ? null : { delegation: encodeDelegation(renewed.delegation) },
      }),
    async settle(id, fence, end, facts) {
      const hit = await backend.write("settleInvocation", encodeSettlement(id, fence, end, facts));
      if (hit && facts.events !== undefined) backend.appended();
      return hit;
    },
    async settleWithTape(id, fence, end, facts, tape) {
      const written = await backend.write("settleWithTape", {
        settle: encodeSettlement(id, fence, end, facts),
        tape: encodeTape(tape),
      });
      if (written !== null && facts.events !== undefined) backend.appended();
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
            status: filter.status ?? "",
            export_id: filter.export_id ?? "",
            session_id: filter.session_id ?? "",
            binding_id: filter.binding_id ?? "",
          },
          before: beforeOf(page),
          limit: page.limit + 1,
        }),
      );
      const shown = pageOf(rows, page, (row) => row.id as string, publicInvocation);
      // The walk was cut short: the page is not full, but there is more to look at.
      return { items: shown.items, next: shown.next ?? resume };
    },
    appendEvents(id, events) {
      backend.later(events.map((item) => [id, item.seq, item.at, JSON.stringify(item.event)]));
    },
    async events(id, after_seq, limit) {
      const rows = await backend.read(() => readProgress(id, after_seq, limit));
      return rows.map((row) => ({
        seq: row.seq as number,
        at: row.at as string,
        event: JSON.parse(row.event as string) as InvocationEvent["event"],
      }));
    },
    async claimOrphans(node_id, now, limit) {
      const rows = await backend.write("claimInvocations", {
        status: "running",
        node_id,
        now: backend.at(now),
        limit,
      });
      return rows.map(decodeInvocation).sort(byId);
    },
    async claimWaiting(node_id, now, limit) {
      const pairs = await backend.write("claimWaiting", { node_id, now: backend.at(now), limit });
      return pairs
        .map((pair) => ({ row: decodeInvocation(pair.row), approval: decodeApproval(pair.approval) }))
        .sort((a, b) => byId(a.row, b.row));
    },
  };
}

export function createApprovalStore(backend: Backend): ApprovalStore {
  return {
    async get(scope, id) {
      const row = await backend.read(() => readApproval(id, scope.org_id, projectColumn(scope.project_id)));
      return row === undefined ? null : decodeApproval(row);
    },
    async covers(scope, id) {
      const row = await backend.read(() => readApproval(id, scope.org_id, projectColumn(scope.project_id)));
      if (row === undefined) return null;
      return (JSON.parse(row.body as string) as Partial<AskedApproval>).covers ?? null;
    },
    async list(scope, filter, page) {
      const rows = await backend.read(() =>
        listApprovals(
          scope.org_id,
          projectColumn(scope.project_id),
          filter.status ?? "",
          beforeOf(page),
          page.limit + 1,
        ),
      );
      return pageOf(rows, page, (row) => row.id as string, decodeApproval);
    },
    async resolve(id, how, facts) {
      const { status, ...resolution } = how;
      const hit = await backend.write("resolveApproval", {
        id,
        status,
        resolution: JSON.stringify(resolution),
        facts: encodeFacts(facts),
      });
      if (hit && facts.events !== undefined) backend.appended();
      return hit;
    },
  };
}

export function createDelegationStore(backend: Backend): DelegationStore {
  return {
    async byHash(token_hash) {
      const row = await backend.read(() => readDelegation(token_hash));
      if (row === undefined) return null;
      return {
        token_hash,
        invocation_id: row.invocation_id as string,
        scope: { org_id: row.org_id as string, project_id: projectOf(row.project_id) },
        scopes: JSON.parse(row.scopes as string) as NewDelegation["scopes"],
        expires_at: row.expires_at as number,
      };
    },
  };
}

function encodeSettlement(id: string, fence: number, end: Settlement, facts: Facts): SettleInvocation {
  return {
    id,
    fence,
    status: end.status,
    retry_count: end.retry_count,
    started_at: end.started_at,
    outcome: encodeOutcome(end),
    facts: encodeFacts(facts),
  };
}

function encodeApproval(approval: AskedApproval): SqlValue[] {
  return [
    approval.id,
    approval.org_id,
    projectColumn(approval.project_id),
    approval.invocation_id,
    approval.status,
    JSON.stringify(approval),
  ];
}

function decodeApproval(row: Row): Approval {
  const { covers: _covers, ...asked } = JSON.parse(row.body as string) as AskedApproval;
  const resolution =
    row.resolution === null ? {} : (JSON.parse(row.resolution as string) as Partial<Approval>);
  // Rows of earlier versions replace nothing.
  const since = { replaces: asked.replaces ?? null, changed: asked.changed ?? [] };
  return { ...asked, ...since, ...resolution, status: row.status as Approval["status"] };
}

/** What only the gateway sees stays inside. */
function publicInvocation(row: Row): Invocation {
  const {
    node_id: _node,
    fence: _fence,
    delivery_id: _delivery,
    turn: _turn,
    depth: _depth,
    ...shown
  } = decodeInvocation(row);
  return shown;
}

function byId(a: InvocationRow, b: InvocationRow): number {
  return a.id < b.id ? -1 : 1;
}
