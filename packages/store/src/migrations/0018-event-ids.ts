/** The session, chain, run and trace of an event, as JSON. Null in events of earlier versions. */
import type { Migration } from "./migration.ts";

export const eventIds: Migration = {
  version: 18,
  name: "event-ids",
  statements: ["alter table outbox add column ids text"],
};
