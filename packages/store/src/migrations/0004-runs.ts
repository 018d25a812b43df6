/**
 * One row per turn. `output_entry` is known only once the answer is on the tape, so it is a separate column and not
 * part of `outcome`.
 */
import type { Migration } from "./migration.ts";

export const runs: Migration = {
  version: 4,
  name: "runs",
  statements: [
    `create table runs (
      id {id} primary key, org_id {id} not null, project_id {id} not null, workspace {id} not null,
      session_id {id} not null, chain_id {id} not null, status {id} not null, node_id {id} not null,
      body text not null, outcome text, output_entry {int})`,
    `create index runs_list on runs (org_id, id)`,
    `create index runs_project on runs (org_id, project_id, id)`,
    `create index runs_session on runs (org_id, session_id, id)`,
    `create index runs_running on runs (id) where status = 'running'`,
  ],
};
