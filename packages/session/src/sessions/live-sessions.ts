/**
 * The bus identifies a session by its id, the store by workspace and id. While a session is in use on this node, its id
 * belongs to one workspace and is rejected in any other, so that two sessions never share a bus queue.
 */

import { BackplaneError, IdTable } from "@backplane/contract";
import type { Scope, SessionKey } from "@backplane/ports";

export const DEFAULT_WORKSPACE = "default";

interface SessionUse {
  key: SessionKey;
  count: number;
}

export class LiveSessions {
  /** Nested by org and project, so that no string key has to be built per event (benchmark loop.turn). */
  readonly #scopes = new Map<string, Map<string | null, IdTable<SessionUse>>>();

  /** Returns a function that releases the session; calls after the first have no effect. */
  acquire(key: SessionKey): () => void {
    const { scope, workspace, session_id } = key;
    const uses = this.#getUses(scope);
    let use = uses.get(session_id);
    if (use === undefined) {
      use = { key, count: 0 };
      uses.set(session_id, use);
    } else if (use.key.workspace !== workspace) {
      throw new BackplaneError(
        "session.conflict",
        `Session ${session_id} is in use in the workspace ${use.key.workspace}. Choose another id in ${workspace}.`,
      );
    }
    use.count++;
    const acquired = use;
    let released = false;
    return () => {
      if (released) return;
      released = true;
      if (--acquired.count === 0) uses.delete(session_id);
    };
  }

  /**
   * Returns the key of a bus event's session; the same object as long as the session is in use. A session that is not
   * in use is taken to be in the default workspace.
   */
  findKey(scope: Scope, session_id: string): SessionKey {
    const { org_id, project_id } = scope;
    const use = this.#scopes.get(org_id)?.get(project_id)?.get(session_id);
    return use?.key ?? { scope: { org_id, project_id }, workspace: DEFAULT_WORKSPACE, session_id };
  }

  #getUses({ org_id, project_id }: Scope): IdTable<SessionUse> {
    let projects = this.#scopes.get(org_id);
    if (projects === undefined) {
      projects = new Map();
      this.#scopes.set(org_id, projects);
    }
    let uses = projects.get(project_id);
    if (uses === undefined) {
      uses = new IdTable();
      projects.set(project_id, uses);
    }
    return uses;
  }
}
