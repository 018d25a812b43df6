/** The gateway's sign-ins to servers of bindings, each sealed as a whole, and the latest login of each binding. */
import type { Migration } from "./migration.ts";

export const signIns: Migration = {
  version: 10,
  name: "sign-ins",
  statements: [
    `create table sign_ins (
      binding_id {id} primary key, org_id {id} not null, revision {int} not null,
      renewing_until {int} not null, ciphertext text not null)`,
    `create index sign_ins_org on sign_ins (org_id, binding_id)`,
    `create table logins (
      binding_id {id} primary key, org_id {id} not null, state_hash {id} not null unique, actor {id} not null,
      status {id} not null, message text, expires_at {int} not null, ciphertext text not null)`,
  ],
};
