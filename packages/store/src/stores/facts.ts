import { canonicalJson } from "@backplane/contract";
import type { Facts, NewAudit } from "@backplane/ports";
import type { AuditRow, FactRows } from "../ops/facts.ts";
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

export function encodeAudit(entry: NewAudit): AuditRow {
  const details = canonicalJson(entry.details);
  const { org_id } = entry.scope;
  const project_id = projectColumn(entry.scope.project_id);
  return {
    values: [entry.id, entry.at, org_id, project_id, entry.actor, entry.action, entry.subject, details],
    canonical: canonicalAudit([
      entry.id,
      entry.at,
      org_id,
      project_id,
      entry.actor,
      entry.action,
      entry.subject,
      details,
    ]),
  };
}

/** The text that an entry's hash covers: every column of the entry, details as stored. */
export function canonicalAudit(values: readonly unknown[]): string {
  return canonicalJson(values);
}
