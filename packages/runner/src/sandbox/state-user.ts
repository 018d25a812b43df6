/**
 * The owner of a persistent folder. If the gateway is root, the slot's user changes from one process to the next,
 * so such a folder has its own user: its current owner, otherwise the lowest id that no sibling folder uses. Two
 * processes of one plugin, as during a reload, have the same user and share their files.
 */
import { lchownSync, lstatSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { chownFolder } from "./chown-folder.ts";

/** Lower than the user ids of the slots. */
export const FIRST_STATE_UID = 58_000;
const STATE_UIDS = 1_000;

/** Requires root. Returns the user id for the process. */
export async function claimStateFolder(folder: string): Promise<number> {
  const uid = claimUser(folder);
  // An inline or plain run of the plugin may have created files as root.
  await chownFolder(folder, uid);
  return uid;
}

/** Synchronous: two folders that are claimed at the same time must not get the same user. */
function claimUser(folder: string): number {
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
    fix: "Remove the folders of plugins that are no longer installed.",
  });
}

function isStateUser(uid: number): boolean {
  return uid >= FIRST_STATE_UID && uid < FIRST_STATE_UID + STATE_UIDS;
}
