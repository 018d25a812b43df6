import type { Approval } from "@backplane/contract";
import type { ApprovalStore, NewApproval } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { listApprovals, readApproval } from "../ops/approvals.ts";
import type { Row, SqlValue } from "../ops/op.ts";
import { encodeAllowRule } from "./allow-rules.ts";
import { encodeRecords } from "./change-records.ts";
import { pageCursor, toPage } from "./page.ts";
import { projectColumn } from "./scope.ts";

export function createApprovalStore(backend: Backend): ApprovalStore {
  return {
    async get(scope, id) {
      const row = await backend.read(() => readApproval(id, scope.org_id, projectColumn(scope.project_id)));
      return row === undefined ? null : decodeApproval(row);
    },
    async getCoveredDigests(scope, id) {
      const row = await backend.read(() => readApproval(id, scope.org_id, projectColumn(scope.project_id)));
      if (row === undefined) return null;
      return (JSON.parse(row.body as string) as Partial<NewApproval>).covers ?? null;
    },
    async list(scope, filter, page) {
      const rows = await backend.read(() =>
        listApprovals(
          scope.org_id,
          projectColumn(scope.project_id),
          filter.status ?? "",
          pageCursor(page),
          page.limit + 1,
        ),
      );
      return toPage(rows, page, (row) => row.id as string, decodeApproval);
    },
    async resolve(id, answer, records, new_rule) {
      const { status, ...resolution } = answer;
      const resolved = await backend.write("resolveApproval", {
        id,
        status,
        resolution: JSON.stringify(resolution),
        rule: new_rule === undefined ? null : encodeAllowRule(new_rule.rule, new_rule.records),
        records: encodeRecords(records),
      });
      if (resolved && records.events !== undefined) backend.notifyAppended();
      return resolved;
    },
  };
}

export function encodeApproval(approval: NewApproval): SqlValue[] {
  return [
    approval.id,
    approval.org_id,
    projectColumn(approval.project_id),
    approval.invocation_id,
    approval.status,
    JSON.stringify(approval),
  ];
}

const DEFAULT_COVERAGE: Approval["may_cover"] = { session: ["arguments"], always: [] };

export function decodeApproval(row: Row): Approval {
  const { covers: _covers, ...request } = JSON.parse(row.body as string) as NewApproval;
  const resolution =
    row.resolution === null ? {} : (JSON.parse(row.resolution as string) as Partial<Approval>);
  // Rows of earlier versions do not have these fields.
  const defaults = {
    replaces: request.replaces ?? null,
    changed: request.changed ?? [],
    may_cover: request.may_cover ?? DEFAULT_COVERAGE,
  };
  return { ...request, ...defaults, ...resolution, status: row.status as Approval["status"] };
}
