import type { Facts } from "@backplane/ports";
import type { FactRows } from "../ops/facts.ts";
import { encodeAudit } from "./audit.ts";
import { projectColumn } from "./scope.ts";

export function encodeFacts(facts: Facts): FactRows {
  return {
    events: (facts.events ?? []).map((event) => [
      event.id,
      event.type,
      event.scope.org_id,
      projectColumn(event.scope.project_id),
      event.occurred_at,
      event.subject.kind,
      event.subject.id,
      JSON.stringify(event.summary),
      event.from_hook === true ? 1 : 0,
    ]),
    audit: facts.audit === undefined ? null : encodeAudit(facts.audit),
  };
}
