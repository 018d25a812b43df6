/** A secret belongs to the project that stored it, or to the whole org ('' as everywhere); those from before are the org's. */
import type { Migration } from "./migration.ts";

export const secretOwners: Migration = {
  version: 13,
  name: "secret-owners",
  statements: [`alter table secrets add column project_id {id} not null default ''`],
};
