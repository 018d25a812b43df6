/**
 * A session's key as one string, for use in maps. Cached per key object, because each event of a turn looks it up
 * (benchmark loop.turn).
 */
import type { SessionKey } from "@backplane/ports";

const names = new WeakMap<SessionKey, string>();

export function sessionMapKey(key: SessionKey): string {
  let name = names.get(key);
  if (name === undefined) {
    const { scope, workspace, session_id } = key;
    name = JSON.stringify([scope.org_id, scope.project_id, workspace, session_id]);
    names.set(key, name);
  }
  return name;
}
