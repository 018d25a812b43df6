/** A secret belongs to the project that stored it, or to the whole org (''). Existing secrets belong to the org. */
import type { Migration } from "./migration.ts";

export const secretOwners: Migration = {
  version: 13,
  name: "secret-owners",
  statements: [`alter table secrets add column project_id {id} not null default ''`],
};
