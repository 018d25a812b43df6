/**
 * Artifacts of calls, in chunks, for nodes that share only the database. With SQLite they are files in the home,
 * without a table. Chunks are not compressed: they are read one by one, and most artifacts are already compressed.
 */
import type { Migration } from "./migration.ts";

export const artifacts: Migration = {
  version: 9,
  name: "artifacts",
  statements: [
    {
      postgres: `create table artifacts (sha256 {id} primary key, bytes {int} not null, kept_at {int} not null)`,
    },
    { postgres: `create index artifacts_age on artifacts (kept_at)` },
    {
      postgres: `create table artifact_pieces (
        sha256 {id} not null references artifacts on delete cascade, piece {int} not null, content bytea not null,
        primary key (sha256, piece))`,
    },
    { postgres: `alter table artifact_pieces alter column content set storage external` },
  ],
};
