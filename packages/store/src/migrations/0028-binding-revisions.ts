/**
 * Counts the changes to an organization's bindings. A change that was checked against all bindings is refused if the
 * count has risen since the check.
 */
import type { Migration } from "./migration.ts";

export const bindingRevisions: Migration = {
  version: 28,
  name: "binding-revisions",
  statements: [`create table binding_revisions (org_id {id} primary key, revision {int} not null)`],
};
