/**
 * Pinned entries. `entry_id` is the id of the original entry; compactions copy entries and leave this row unchanged.
 */
import type { Migration } from "./migration.ts";

export const pins: Migration = {
  version: 22,
  name: "pins",
  statements: [
    `create table pins (
      org_id {id} not null, project_id {id} not null, workspace {id} not null, session_id {id} not null,
      entry_id {int} not null, pinned_by text not null, pinned_at text not null,
      primary key (org_id, project_id, workspace, session_id, entry_id))`,
  ],
};
