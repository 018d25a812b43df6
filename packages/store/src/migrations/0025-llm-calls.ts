/**
 * Calls to the model endpoints, and how much of their limits keys and projects have used. A limit has one row per
 * period; the first call of the next period resets the row.
 */
import type { Migration } from "./migration.ts";

export const llmCalls: Migration = {
  version: 25,
  name: "llm_calls",
  statements: [
    `create table llm_calls (
      id {id} primary key, org_id {id} not null, project_id {id} not null, status {id} not null, deadline {int} not null,
      invocation_id {id}, run_id {id}, body text not null)`,
    `create index llm_calls_list on llm_calls (org_id, id)`,
    `create index llm_calls_run on llm_calls (run_id, id) where run_id is not null`,
    `create index llm_calls_invocation on llm_calls (invocation_id, id) where invocation_id is not null`,
    `create index llm_calls_running on llm_calls (deadline) where status = 'running'`,
    `create table llm_budgets (
      subject {id} not null, period {id} not null, starts {int} not null, requests {int} not null, tokens {int} not null,
      primary key (subject, period))`,
  ],
};
