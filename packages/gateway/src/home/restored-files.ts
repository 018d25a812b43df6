/**
 * The last step of `backplane restore`: moves the verified files into place in the home. Renaming the folder that
 * holds them commits the restore; if the process is killed afterwards, the same steps can be repeated until they are
 * complete.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { fsyncFolder } from "./home.ts";

const COMMITTED_FOLDER = ".restored";
const PLAN_FILE = "plan.json";
const FILES_FOLDER = "files";
/** Entries that a restore leaves in place: the lock, which it holds, its own folders, and the backups in the home. */
const LEFT_IN_PLACE = /^(?:backplane\.lock(?:-journal)?|\.restor.*|before-restore-.*|.*\.backup)$/;

interface RestorePlan {
  /** The entries of the home that are moved away. */
  previous: string[];
  restored: string[];
  /** The folder of the home to which the previous files are moved; null if there are none. */
  kept: string | null;
}

/** The folder whose contents become the home. */
export const stagedFiles = (staging: string) => join(staging, FILES_FOLDER);

/**
 * Credentials stay unless the archive contains others: an operator may have placed a key there for the restored
 * secrets.
 */
const CREDENTIALS = ["admin.token", "secret.key"];

/** The entries that a restore replaces, whatever the archive contains. */
export function listPreviousFiles(home: string): string[] {
  if (!existsSync(home)) return [];
  return readdirSync(home).filter((name) => !LEFT_IN_PLACE.test(name) && !CREDENTIALS.includes(name));
}

/** Returns the folder with the previous files; null if there were none. */
export function placeFiles(home: string, staging: string): string | null {
  const restored = readdirSync(stagedFiles(staging));
  const previous = listPreviousFiles(home);
  for (const name of CREDENTIALS)
    if (restored.includes(name) && existsSync(join(home, name))) previous.push(name);
  const stamp = new Date().toISOString().replaceAll(/[:.]/g, "-");
  const plan: RestorePlan = {
    previous,
    restored,
    kept: previous.length === 0 ? null : `before-restore-${stamp}`,
  };
  writeFileSync(join(staging, PLAN_FILE), JSON.stringify(plan), { flush: true, mode: 0o600 });
  fsyncFolder(staging);
  renameSync(staging, join(home, COMMITTED_FOLDER));
  fsyncFolder(home);
  return finishRestore(home);
}

/** Null if there is nothing to finish, or there were no previous files. */
export function finishRestore(home: string): string | null {
  const committed = join(home, COMMITTED_FOLDER);
  if (!existsSync(committed)) return null;
  const plan = JSON.parse(readFileSync(join(committed, PLAN_FILE), "utf8")) as RestorePlan;
  const previous_folder = plan.kept === null ? null : join(home, plan.kept);
  if (previous_folder !== null) mkdirSync(previous_folder, { recursive: true, mode: 0o700 });
  const moveToPrevious = (name: string) => {
    if (existsSync(join(home, name))) renameSync(join(home, name), join(previous_folder!, name));
  };
  for (const name of plan.previous.filter((each) => !plan.restored.includes(each))) moveToPrevious(name);
  for (const name of plan.restored) {
    const staged = join(committed, FILES_FOLDER, name);
    // An interrupted restore has already moved this file.
    if (!existsSync(staged)) continue;
    if (plan.previous.includes(name)) moveToPrevious(name);
    renameSync(staged, join(home, name));
  }
  fsyncFolder(home);
  rmSync(committed, { recursive: true });
  return previous_folder;
}

/** A gateway must not start with a mix of old and restored files. */
export function assertNotRestoring(home: string): void {
  if (!existsSync(join(home, COMMITTED_FOLDER))) return;
  throw new BackplaneError("home.restoring", `A restore of ${home} was interrupted.`);
}
