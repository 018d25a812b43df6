/**
 * A login belongs to the browser that opened it first. Existing logins have no browser, so pending ones must be started
 * again.
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
