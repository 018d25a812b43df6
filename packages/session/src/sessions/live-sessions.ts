/**
 * The bus knows sessions by id, the store by workspace and id. While a session is in use here its id means one
 * workspace; the same id in another one has to wait, so that two conversations never mix.
 */

import { BackplaneError, IdTable } from "@backplane/contract";
import type { Scope, SessionKey } from "@backplane/ports";

export const DEFAULT_WORKSPACE = "default";

interface Use {
  key: SessionKey;
  count: number;
}

export class LiveSessions {
  /** By org and project: a text of both would have to be made for every event. */
  readonly #scopes = new Map<string, Map<string | null, IdTable<Use>>>();

  /** Answers how to let go; letting go twice is one. */
  enter(key: SessionKey): () => void {
    const { scope, workspace, session_id } = key;
    const uses = this.#usesOf(scope);
    let use = uses.get(session_id);
    if (use === undefined) {
      use = { key, count: 0 };
      uses.add(session_id, use);
    } else if (use.key.workspace !== workspace) {
      throw new BackplaneError(
        "session.conflict",
        `session ${session_id} is in use in the workspace ${use.key.workspace}; use another id in ${workspace}`,
      );
    }
    use.count++;
    const held = use;
    let left = false;
    return () => {
      if (left) return;
      left = true;
      if (--held.count === 0) uses.delete(session_id);
    };
  }

  /** The key that a bus event belongs to; the same object while the session is in use. */
  keyOf(scope: Scope, session_id: string): SessionKey {
    const { org_id, project_id } = scope;
    const use = this.#scopes.get(org_id)?.get(project_id)?.get(session_id);
    return use?.key ?? { scope: { org_id, project_id }, workspace: DEFAULT_WORKSPACE, session_id };
  }

  #usesOf({ org_id, project_id }: Scope): IdTable<Use> {
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
