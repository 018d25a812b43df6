/** Counts the changes of an organisation's bindings, so that a check of all of them still holds when a change is stored. */
import type { Migration } from "./migration.ts";

export const bindingRevisions: Migration = {
  version: 28,
  name: "binding-revisions",
  statements: [`create table binding_revisions (org_id {id} primary key, revision {int} not null)`],
};
