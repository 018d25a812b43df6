/** Every claim uses `jobs_lane`, so the index of due times without a lane only made the writes of a delivery slower. */
import type { Migration } from "./migration.ts";

export const jobIndexes: Migration = {
  version: 29,
  name: "job-indexes",
  statements: ["drop index jobs_due"],
};
