import { createHash } from "node:crypto";

/**
 * What a tape is called (tape.name). Only a name: the store's key is the full pair, so two pairs whose names
 * collide are still two tapes. MD5 is not here for security.
 */
export function tapeName(workspace: string, session_id: string): string {
  return `${short(workspace)}__${short(session_id)}`;
}

function short(text: string): string {
  return createHash("md5").update(text).digest("hex").slice(0, 16);
}
