/**
 * An attempt to sign in belongs to the browser that opened it first. Attempts from before know of none: those that wait have
 * to begin anew, and the others are over.
 */
import type { Migration } from "./migration.ts";

export const loginBrowsers: Migration = {
  version: 11,
  name: "login-browsers",
  statements: [
    `delete from logins`,
    `alter table logins add column start_hash {id} not null default ''`,
    `alter table logins add column browser_hash {id}`,
    `create unique index logins_start on logins (start_hash)`,
  ],
};
