/**
 * Allows one gateway per home. The lock is an open SQLite transaction on a separate file. The operating system releases
 * it when the process exits for any reason, so there is never a stale lock to clean up.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { BackplaneError } from "@backplane/contract";

/** The name of the lock file in the home. */
export const LOCK_FILE = "backplane.lock";

const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;

export function lockHome(dir: string): { release(): void } {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(join(dir, LOCK_FILE));
    database.exec("pragma busy_timeout = 0; pragma locking_mode = exclusive; begin exclusive;");
  } catch (error) {
    database?.close();
    const errcode = ((error as { errcode?: number }).errcode ?? 0) & 0xff;
    if (errcode !== SQLITE_BUSY && errcode !== SQLITE_LOCKED) {
      throw new BackplaneError("store.unavailable", "The lock file of the home cannot be written.", {
        cause: error,
        fix: "Check the permissions and the free space of BACKPLANE_HOME.",
      });
    }
    throw new BackplaneError("home.locked", "Another gateway is running on this home.", { cause: error });
  }
  const lock = database;
  return {
    release() {
      if (lock.isOpen) lock.close();
    },
  };
}
