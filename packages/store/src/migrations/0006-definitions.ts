/** The tools that the process of a binding has reported: one JSON text per binding, read and written as a whole. */
import type { Migration } from "./migration.ts";

export const definitions: Migration = {
  version: 6,
  name: "definitions",
  statements: [
    `create table definitions (
      binding_id {id} primary key, org_id {id} not null, revision {int} not null, body text not null)`,
  ],
};
