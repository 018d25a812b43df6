/**
 * A run has the id of its first entry. For an existing run this is the entry after the end of the previous run of its
 * session, or after the fork if there is no previous run. The default is for gateways of the earlier version that still
 * write to a shared database.
 */
import type { Migration } from "./migration.ts";

const PREVIOUS_END = `(select previous.output_entry from runs previous
  where previous.org_id = runs.org_id and previous.project_id = runs.project_id
    and previous.workspace = runs.workspace and previous.session_id = runs.session_id
    and previous.id < runs.id and previous.output_entry is not null
  order by previous.id desc limit 1)`;

const FORK = `(select chains.fork_entry from sessions join chains on chains.id = sessions.root_chain
  where sessions.org_id = runs.org_id and sessions.project_id = runs.project_id
    and sessions.workspace = runs.workspace and sessions.id = runs.session_id)`;

export const runFirstEntries: Migration = {
  version: 16,
  name: "run-first-entries",
  statements: [
    `alter table runs add column first_entry {int} not null default 1`,
    `update runs set first_entry = coalesce(${PREVIOUS_END}, ${FORK}, 0) + 1`,
  ],
};
