import type { ChangeRecords } from "@backplane/ports";
import type { ChangeRecordRows } from "../ops/change-records.ts";
import { encodeAudit } from "./audit.ts";
import { projectColumn } from "./scope.ts";

export function encodeRecords(records: ChangeRecords): ChangeRecordRows {
  return {
    events: (records.events ?? []).map((event) => [
      event.id,
      event.type,
      event.scope.org_id,
      projectColumn(event.scope.project_id),
      event.occurred_at,
      event.subject.kind,
      event.subject.id,
      JSON.stringify(event.summary),
      event.from_hook === true ? 1 : 0,
      event.ids === undefined ? null : JSON.stringify(event.ids),
    ]),
    audit: records.audit === undefined ? null : encodeAudit(records.audit),
  };
}
