/**
 * A lane has its own share of the workers. `ended_at` determines when a job may be removed. Existing deliveries get the
 * same lane as new ones: their binding, which is the first part of their group.
 */
import type { Migration } from "./migration.ts";

export const lanes: Migration = {
  version: 5,
  name: "lanes",
  statements: [
    `alter table jobs add column lane {id} not null default ''`,
    `alter table jobs add column ended_at {int}`,
    {
      sqlite: `update jobs set lane = substr(group_name, 1, instr(group_name, '/') - 1)
        where queue = 'deliveries' and instr(group_name, '/') > 0`,
      postgres: `update jobs set lane = split_part(group_name, '/', 1) where queue = 'deliveries' and group_name is not null`,
    },
    `update jobs set ended_at = run_at where state in ('done', 'dead')`,
    `create index jobs_lane on jobs (queue, lane, due_at) where due_at is not null`,
    `create index delegations_expiry on delegations (expires_at)`,
    `create index jobs_ended on jobs (state, ended_at) where ended_at is not null`,
  ],
};
