/** Allow rules. A call that needs approval reads the rules of its package; a list reads those of its org. */
import type { Migration } from "./migration.ts";

export const allowRules: Migration = {
  version: 17,
  name: "allow-rules",
  statements: [
    `create table allow_rules (
      id {id} primary key, org_id {id} not null, project_id {id} not null, package_id {id} not null, body text not null)`,
    `create index allow_rules_list on allow_rules (org_id, id)`,
    `create index allow_rules_package on allow_rules (org_id, package_id)`,
  ],
};
