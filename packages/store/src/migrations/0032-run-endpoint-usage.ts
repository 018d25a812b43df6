/**
 * The model calls that a run has made through the model endpoints, and their tokens. They are separate from `outcome`,
 * because a call may end after its run. Calls that ended before this migration are not added to their runs.
 */
import type { Migration } from "./migration.ts";

const COLUMNS = [
  "endpoint_calls",
  "endpoint_input_other",
  "endpoint_cache_read",
  "endpoint_cache_creation",
  "endpoint_output",
];

export const runEndpointUsage: Migration = {
  version: 32,
  name: "run-endpoint-usage",
  statements: COLUMNS.map((column) => `alter table runs add column ${column} {int} not null default 0`),
};
