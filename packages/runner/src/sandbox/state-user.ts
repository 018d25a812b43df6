/**
 * The user of a folder that outlives its processes. Where the gateway is root, a slot's user changes from one process
 * to the next, so such a folder has a user of its own: whoever owns it already, else the lowest number that no folder
 * beside it has. Two processes of one plugin, as a reload has them, are the same user and share their files.
 */
import { lchownSync, lstatSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { giveFolder } from "./chown-folder.ts";

/** Below the users of the slots. */
export const FIRST_STATE_UID = 58_000;
const STATE_UIDS = 1_000;

/** Only as root. Answers the user that the process is to be. */
export async function ownState(folder: string): Promise<number> {
  const uid = userOf(folder);
  // What an inline or plain life of the plugin left belongs to root.
  await giveFolder(folder, uid);
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

function isStateUser(uid: number): boolean {
  return uid >= FIRST_STATE_UID && uid < FIRST_STATE_UID + STATE_UIDS;
}
