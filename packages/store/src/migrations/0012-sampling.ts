/** Records when a binding's server used the gateway's model, for its quota. The rows are removed with the binding. */
import type { Migration } from "./migration.ts";

export const sampling: Migration = {
  version: 12,
  name: "sampling",
  statements: [
    `create table sampling_uses (binding_id {id} not null, at {int} not null)`,
    `create index sampling_uses_at on sampling_uses (binding_id, at)`,
  ],
};
