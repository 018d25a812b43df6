/**
 * Secrets are write-only: sealed here, opened only to run a plugin, to log in to a registry or to rotate the master
 * key, and listed by name and last four characters. A secret that a project stored belongs to that project; all
 * projects may use a secret that the org stored, but only the org may change it.
 */

import { BackplaneError, codeOf, type Secret } from "@backplane/contract";
import {
  buildAudit,
  type Caller,
  isWholeOrg,
  type Kernel,
  type KernelDeps,
  type Page,
  requireOperator,
  type Scope,
} from "@backplane/ports";
import { createVisibilityFilter, hideInvisibleBindings } from "../access/visible-bindings.ts";
import { rotateKey } from "./rotate-key.ts";

/** A value of at most this length is masked entirely: its last four characters would reveal too much of it. */
const MAX_MASKED_CHARS = 8;

export function createSecrets(deps: KernelDeps): Kernel["secrets"] {
  const { store } = deps;

  async function put(caller: Caller, name: string, value: string) {
    requireOperator(caller, "store secrets");
    const { org_id, project_id } = ownerScopeOf(caller);
    const now = deps.clock.now();
    const last4 = value.length > MAX_MASKED_CHARS ? value.slice(-4) : "****";
    const sealed = { org_id, project_id, name, ciphertext: deps.vault.seal(org_id, name, value), last4 };
    const audit = buildAudit(deps, caller, "secret.put", name);
    const stored = store.secrets.put(sealed, new Date(now).toISOString(), { audit });
    return await filterUsedBy(caller, await stored.catch(explainDenial));
  }

  async function get(caller: Caller, name: string) {
    const { org_id, project_id } = ownerScopeOf(caller);
    const secret = await store.secrets.get(org_id, name);
    if (secret === null || (project_id !== null && !isUsableIn(secret, project_id)))
      throw new BackplaneError("secret.not_found");
    return await filterUsedBy(caller, secret);
  }

  async function list(caller: Caller, page: Page) {
    const { items, next } = await store.secrets.list(ownerScopeOf(caller), page);
    const filterVisible = createVisibilityFilter(deps, caller);
    const visible_secrets: Secret[] = [];
    for (const secret of items)
      visible_secrets.push({ ...secret, used_by: await filterVisible(secret.used_by) });
    return { items: visible_secrets, next };
  }

  async function remove(caller: Caller, name: string): Promise<void> {
    requireOperator(caller, "remove secrets");
    const audit = buildAudit(deps, caller, "secret.remove", name);
    try {
      if (await store.secrets.remove(ownerScopeOf(caller), name, { audit }).catch(explainDenial)) return;
    } catch (error) {
      throw await hideInvisibleBindings(
        error,
        "secret.in_use",
        "used_by",
        createVisibilityFilter(deps, caller),
      );
    }
    throw new BackplaneError("secret.not_found");
  }

  async function filterUsedBy(caller: Caller, secret: Secret): Promise<Secret> {
    return { ...secret, used_by: await createVisibilityFilter(deps, caller)(secret.used_by) };
  }

  return { put, get, list, remove, rotateKey: (caller, options) => rotateKey(deps, caller, options) };
}

/**
 * Whether bindings of the project may refer to the secret. Null means the whole org, which may use only the org's
 * own secrets.
 */
export function isUsableIn(
  { project_id: owner }: Pick<Secret, "project_id">,
  project_id: string | null,
): boolean {
  return owner === null || owner === project_id;
}

function ownerScopeOf(caller: Caller): Scope {
  const { org_id, project_id } = caller.scope;
  return { org_id, project_id: isWholeOrg(caller) ? null : project_id };
}

function explainDenial(error: unknown): never {
  if (codeOf(error) !== "policy.denied") throw error;
  throw new BackplaneError("policy.denied", (error as Error).message, {
    fix: "Use another name, the admin token, or a key of the whole organization.",
    cause: error,
  });
}
