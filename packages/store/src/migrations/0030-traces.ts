/**
 * The calls of one trace are found by an index. A call that cannot share its trace with another call has no value, so it
 * costs no index entry. Calls of earlier versions have none either.
 */
import type { Migration } from "./migration.ts";

export const traces: Migration = {
  version: 30,
  name: "traces",
  statements: [
    "alter table invocations add column trace_id {id}",
    "create index invocations_trace on invocations (org_id, trace_id, id) where trace_id is not null",
  ],
};
