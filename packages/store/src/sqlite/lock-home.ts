/**
 * One gateway per home. The lock is an open SQLite transaction on a file of its own: the operating system
 * drops it when the process ends, however it ends, so there is never a stale one to clean up.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { BackplaneError } from "@backplane/contract";

export function lockHome(dir: string): { release(): void } {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(join(dir, "backplane.lock"));
    database.exec("pragma busy_timeout = 0; pragma locking_mode = exclusive; begin exclusive;");
  } catch (error) {
    database?.close();
    const busy = ((error as { errcode?: number }).errcode ?? 0) & 0xff;
    if (busy !== 5 && busy !== 6) {
      throw new BackplaneError("store.unavailable", "The home's lock file cannot be written.", {
        cause: error,
        fix: "Check the permissions and the free space of BACKPLANE_HOME.",
      });
    }
    throw new BackplaneError("home.locked", "Another gateway runs on this home.", { cause: error });
  }
  const held = database;
  return {
    release() {
      if (held.isOpen) held.close();
    },
  };
}
