/** The live configuration of an org. `bytes` precedes the value, so that a sum over it does not read long values. */
import type { Migration } from "./migration.ts";

export const config: Migration = {
  version: 3,
  name: "config",
  statements: [
    `create table config (
      org_id {id} not null, key {id} not null, bytes {int} not null, sealed {int} not null,
      updated_at text not null, value text not null,
      primary key (org_id, key))`,
  ],
};
