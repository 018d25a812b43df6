/** What the tools of a described binding are. One JSON text per binding: it is read and written whole. */
import type { Migration } from "./migration.ts";

export const definitions: Migration = {
  version: 6,
  name: "definitions",
  statements: [
    `create table definitions (
      binding_id {id} primary key, org_id {id} not null, revision {int} not null, body text not null)`,
  ],
};
