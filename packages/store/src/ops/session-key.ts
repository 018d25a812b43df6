/** How a statement identifies one session: scope, workspace and id. */
import type { SqlValue } from "./op.ts";

export interface SessionKeyColumns {
  org_id: string;
  project_id: string;
  workspace: string;
  session_id: string;
}

/** $1 to $3; the session id is $4. */
export const SESSION_KEY = "org_id = $1 and project_id = $2 and workspace = $3";

export function keyValues(key: SessionKeyColumns): SqlValue[] {
  return [key.org_id, key.project_id, key.workspace, key.session_id];
}
