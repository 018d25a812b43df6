import { isMainThread } from "node:worker_threads";

/**
 * Closes what this process makes without saying a mode, as SQLite does, to other users. Called before anything is
 * written into the home. The umask belongs to the process, and a worker thread cannot change it.
 */
export function setPrivateUmask(): void {
  if (isMainThread) process.umask(0o077);
}
