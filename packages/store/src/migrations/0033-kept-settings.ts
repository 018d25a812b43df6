/**
 * The configuration of removed instrument plugins. It belongs to the plugin in a project or in the whole org, as its data
 * folder does, and a later installation begins with it.
 */
import type { Migration } from "./migration.ts";

export const keptSettings: Migration = {
  version: 33,
  name: "kept settings",
  statements: [
    `create table kept_settings (
      org_id {id} not null, project_id {id} not null, package_id {id} not null, config text not null,
      primary key (org_id, project_id, package_id))`,
  ],
};
