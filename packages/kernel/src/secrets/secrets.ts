/** Secrets are write-only: sealed here, opened only for a call's order, shown by name and last four. */
import { BackplaneError, type Secret } from "@backplane/contract";
import { namingVisible, visibleTo } from "../bindings/visible.ts";
import { auditOf, requireOperator } from "../caller.ts";
import type { KernelDeps } from "../deps.ts";
import type { Kernel } from "../facade.ts";
import type { Caller, Page } from "../ports/index.ts";
import { rotateKey } from "./rotate-key.ts";

/** Four characters of a short value would give too much of it away. */
const LONG_ENOUGH = 8;

export function createSecrets(deps: KernelDeps): Kernel["secrets"] {
  const { store } = deps;

  async function put(caller: Caller, name: string, value: string) {
    requireOperator(caller, "store secrets");
    const { org_id } = caller.scope;
    const now = deps.clock.now();
    const last4 = value.length > LONG_ENOUGH ? value.slice(-4) : "****";
    const sealed = { org_id, name, ciphertext: deps.vault.seal(org_id, name, value), last4 };
    const audit = auditOf(deps, caller, "secret.put", name);
    return await shown(caller, await store.secrets.put(sealed, new Date(now).toISOString(), { audit }));
  }

  async function get(caller: Caller, name: string) {
    const secret = await store.secrets.get(caller.scope.org_id, name);
    if (secret === null) throw new BackplaneError("secret.not_found");
    return await shown(caller, secret);
  }

  async function list(caller: Caller, page: Page) {
    const { items, next } = await store.secrets.list(caller.scope.org_id, page);
    const visible = visibleTo(deps, caller);
    const seen: Secret[] = [];
    for (const secret of items) seen.push({ ...secret, used_by: await visible(secret.used_by) });
    return { items: seen, next };
  }

  async function remove(caller: Caller, name: string): Promise<void> {
    requireOperator(caller, "remove secrets");
    const { org_id } = caller.scope;
    const audit = auditOf(deps, caller, "secret.remove", name);
    try {
      if (await store.secrets.remove(org_id, name, { audit })) return;
    } catch (error) {
      throw await namingVisible(error, "secret.in_use", "used_by", visibleTo(deps, caller));
    }
    throw new BackplaneError("secret.not_found");
  }

  async function shown(caller: Caller, secret: Secret): Promise<Secret> {
    return { ...secret, used_by: await visibleTo(deps, caller)(secret.used_by) };
  }

  return { put, get, list, remove, rotateKey: (caller, options) => rotateKey(deps, caller, options) };
}
