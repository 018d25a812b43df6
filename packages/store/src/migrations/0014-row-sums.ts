/**
 * With SQLite each row has a checksum, the column `sum`, which sqlite/connection/row-checksums.ts adds to all tables
 * except schema_version from this step on, and the store counts its commits (sqlite/connection/commit-counter.ts).
 * PostgreSQL verifies its pages and its log itself.
 */
import type { Migration } from "./migration.ts";

export const rowSums: Migration = {
  version: 14,
  name: "row-sums",
  statements: [
    {
      sqlite: `create table store_state (
        one integer primary key, commits integer not null, at integer not null, schema_sum integer not null)`,
    },
    { sqlite: "insert into store_state (one, commits, at, schema_sum) values (1, 0, 0, 0)" },
  ],
};
