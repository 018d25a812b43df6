/** Converts a client's session reference to the store's key inside the caller's scope, and checks the workspace. */

import { BackplaneError } from "@backplane/contract";
import type { Caller, SessionKey, SessionRef } from "@backplane/ports";
import { DEFAULT_WORKSPACE } from "@backplane/session";

const MAX_WORKSPACE_LENGTH = 1_024;

export function resolveSessionKey(
  caller: Caller,
  { session_id, workspace = DEFAULT_WORKSPACE }: SessionRef,
): SessionKey {
  if (workspace.length === 0 || workspace.length > MAX_WORKSPACE_LENGTH || /\p{C}/u.test(workspace)) {
    throw new BackplaneError(
      "request.invalid",
      `The workspace must be a name of 1 to ${MAX_WORKSPACE_LENGTH} printable characters.`,
    );
  }
  return { scope: caller.scope, workspace, session_id };
}
