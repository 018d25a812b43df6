import { isMainThread } from "node:worker_threads";

/**
 * Makes files that are created without an explicit mode, such as those of SQLite, inaccessible to other users. Must be
 * called before anything is written to the home. The umask belongs to the process, and a worker thread cannot change
 * it.
 */
export function setPrivateUmask(): void {
  if (isMainThread) process.umask(0o077);
}
