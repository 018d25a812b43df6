/** The policy of an org (project_id '') and of each project that restricts it further. */
import type { Migration } from "./migration.ts";

export const policy: Migration = {
  version: 7,
  name: "policy",
  statements: [
    `create table policies (
      org_id {id} not null, project_id {id} not null, generation {int} not null,
      updated_at text not null, updated_by text not null, document text not null,
      primary key (org_id, project_id))`,
  ],
};
