/** Harness executions. Limits and counters are columns, because the update of a counter also checks its limit. */
import type { Migration } from "./migration.ts";

export const executions: Migration = {
  version: 21,
  name: "executions",
  statements: [
    `create table executions (
      id {id} primary key, org_id {id} not null, project_id {id} not null, invocation_id {id} not null,
      run_id {id}, status {id} not null, chain_id {id}, depth {int} not null, deadline {int}, starts {int} not null,
      max_depth {int} not null, max_child_runs {int} not null, max_steps {int} not null, max_compactions {int} not null,
      child_runs {int} not null, steps {int} not null, compactions {int} not null,
      checkpoints {int} not null, checkpoint text, body text not null)`,
  ],
};
