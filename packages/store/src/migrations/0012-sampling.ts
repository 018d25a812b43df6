/** When servers of bindings had the gateway's model, for as long as their quota looks back; goes with the binding. */
import type { Migration } from "./migration.ts";

export const sampling: Migration = {
  version: 12,
  name: "sampling",
  statements: [
    `create table sampling_uses (binding_id {id} not null, at {int} not null)`,
    `create index sampling_uses_at on sampling_uses (binding_id, at)`,
  ],
};
