/**
 * A session's key as one string, for use in maps. Cached per key object, because each event of a turn looks it up
 * (benchmark loop.turn).
 */
import type { SessionKey } from "@backplane/ports";

const map_keys = new WeakMap<SessionKey, string>();

export function sessionMapKey(key: SessionKey): string {
  let map_key = map_keys.get(key);
  if (map_key === undefined) {
    const { scope, workspace, session_id } = key;
    map_key = JSON.stringify([scope.org_id, scope.project_id, workspace, session_id]);
    map_keys.set(key, map_key);
  }
  return map_key;
}
