/**
 * The files of packages, for gateways that share only the database. With SQLite they are only in the home, without a
 * table. A file is stored once for all packages that contain it. A package has a row only when it is complete: the
 * reference from `shared_package_files` keeps each of its files. PostgreSQL compresses the chunks, because most files
 * are source text.
 */
import type { Migration } from "./migration.ts";

export const sharedPackages: Migration = {
  version: 31,
  name: "shared packages",
  statements: [
    {
      postgres: `create table shared_packages (
        digest {id} primary key, listing_bytes {int} not null, kept_at {int} not null)`,
    },
    { postgres: `create table shared_files (sha256 {id} primary key, kept_at {int} not null)` },
    {
      postgres: `create table shared_file_chunks (
        sha256 {id} not null references shared_files on delete cascade, chunk {int} not null, content bytea not null,
        primary key (sha256, chunk))`,
    },
    {
      postgres: `create table shared_package_files (
        digest {id} not null references shared_packages on delete cascade,
        sha256 {id} not null references shared_files, primary key (digest, sha256))`,
    },
    { postgres: `create index shared_package_files_file on shared_package_files (sha256)` },
    {
      postgres: `create table shared_package_holds (
        digest {id} not null references shared_packages on delete cascade, holder {id} not null,
        expires_at {int} not null, primary key (digest, holder))`,
    },
  ],
};
