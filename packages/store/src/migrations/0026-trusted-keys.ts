/** Keys that sign packages, and the highest version of each package that was installed with a signature. */
import type { Migration } from "./migration.ts";

export const trustedKeys: Migration = {
  version: 26,
  name: "trusted-keys",
  statements: [
    `create table trusted_keys (id {id} primary key, org_id {id} not null, key_id {id} not null, body text not null)`,
    `create unique index trusted_keys_key on trusted_keys (org_id, key_id)`,
    `create index trusted_keys_list on trusted_keys (org_id, id)`,
    `create table signed_versions (
      org_id {id} not null, package_id {id} not null, version {id} not null, primary key (org_id, package_id))`,
  ],
};
