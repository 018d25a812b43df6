/**
 * The user of a folder that outlives its processes. Where the gateway is root, a slot's user changes from one process
 * to the next, so such a folder has a user of its own: whoever owns it already, else the lowest number that no folder
 * beside it has. Two processes of one plugin, as a reload has them, are the same user and share their files.
 */
import { closeSync, constants, lchownSync, lstatSync, openSync, readdirSync } from "node:fs";
import { lchown, lstat, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { BackplaneError } from "@backplane/contract";

/** Below the users of the slots. */
export const FIRST_STATE_UID = 58_000;
const STATE_UIDS = 1_000;
const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;
/** Others get their turn after so many files. */
const AT_ONCE = 256;

/** Only as root. Answers the user that the process is to be. */
export async function ownState(folder: string): Promise<number> {
  const uid = userOf(folder);
  await giveAll(folder, uid, { left: AT_ONCE });
  return uid;
}

/** Nothing waits in here: two folders that are looked at together must not get the same user. */
function userOf(folder: string): number {
  const parent = dirname(folder);
  const { uid: owner } = lstatSync(folder);
  const others = new Set<number>();
  for (const name of readdirSync(parent)) {
    const path = join(parent, name);
    if (path !== folder) others.add(lstatSync(path).uid);
  }
  if (isStateUser(owner) && !others.has(owner)) return owner;
  for (let uid = FIRST_STATE_UID; isStateUser(uid); uid++) {
    if (others.has(uid)) continue;
    lchownSync(folder, uid, uid);
    return uid;
  }
  throw new BackplaneError("launch_failed", `More than ${STATE_UIDS} plugins have a folder in ${parent}.`, {
    fix: "Remove the folders of plugins that are gone.",
  });
}

/**
 * What an inline or plain life of the plugin left belongs to root. By descriptors and never through a link: an older
 * process of the same plugin may be at work in there.
 */
async function giveAll(folder: string, uid: number, turn: { left: number }): Promise<void> {
  const fd = openFolder(folder);
  if (fd === null) return;
  try {
    const here = `/proc/self/fd/${fd}`;
    for (const name of await readdir(here)) {
      if (--turn.left === 0) {
        turn.left = AT_ONCE;
        await setImmediate();
      }
      const path = join(here, name);
      const info = await lstat(path).catch(() => null);
      if (info === null) continue;
      if (info.uid !== uid) await lchown(path, uid, uid).catch(unlessGone);
      if (info.isDirectory()) await giveAll(path, uid, turn);
    }
  } finally {
    closeSync(fd);
  }
}

/** Null: it is a folder no more. */
function openFolder(path: string): number | null {
  try {
    return openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR" || code === "ELOOP") return null;
    throw error;
  }
}

function isStateUser(uid: number): boolean {
  return uid >= FIRST_STATE_UID && uid < FIRST_STATE_UID + STATE_UIDS;
}

function unlessGone(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") throw error;
}
