/**
 * Deliveries are listed by scope and found by their own id, so the id of a delivery becomes the id of its job. `started`
 * is the last attempt that reached the door, and `invocation_id` its call.
 */
import type { Migration } from "./migration.ts";

export const deliveries: Migration = {
  version: 23,
  name: "deliveries",
  statements: [
    `alter table jobs add column org_id {id} not null default ''`,
    `alter table jobs add column project_id {id} not null default ''`,
    `alter table jobs add column invocation_id {id}`,
    `alter table jobs add column started {int} not null default 0`,
    {
      sqlite: `update jobs set id = coalesce(payload ->> 'delivery_id', id), started = attempt,
        org_id = coalesce(payload ->> 'org_id', ''), project_id = coalesce(payload ->> 'project_id', '')
        where queue = 'deliveries'`,
      postgres: `update jobs set id = coalesce(payload::json ->> 'delivery_id', id), started = attempt,
        org_id = coalesce(payload::json ->> 'org_id', ''), project_id = coalesce(payload::json ->> 'project_id', '')
        where queue = 'deliveries'`,
    },
    `create index jobs_list on jobs (org_id, id) where org_id <> ''`,
    `create index jobs_project on jobs (org_id, project_id, id) where org_id <> ''`,
    `create index jobs_dead_list on jobs (org_id, id) where state = 'dead'`,
  ],
};
