/**
 * Keys that an org trusts to sign packages. Only an admin of the whole org changes them, and each change is audited.
 */

import { BackplaneError, type TrustedKey } from "@backplane/contract";
import { buildAudit, type Caller, type Kernel, type KernelDeps, requireWholeOrg } from "@backplane/ports";
import { readPublicKey, signingKeyId } from "./verify-signature.ts";

export function createTrustedKeys(deps: KernelDeps): Kernel["trusted_keys"] {
  const { store } = deps;

  async function get({ scope }: Caller, id: string): Promise<TrustedKey> {
    const key = await store.trusted_keys.get(scope.org_id, id);
    if (key === null) throw new BackplaneError("trusted_key.not_found");
    return key;
  }

  return {
    get,
    list: ({ scope }, page) => store.trusted_keys.list(scope.org_id, page),
    async trust(caller, { name, public_key, packages = ["*"], not_before = null, not_after = null }) {
      requireKeyAdmin(caller, "trust a signing key");
      const key = readPublicKey(public_key);
      const row: TrustedKey = {
        id: deps.ids.next("trusted_key"),
        org_id: caller.scope.org_id,
        key_id: signingKeyId(key),
        name,
        public_key: key.export({ type: "spki", format: "pem" }) as string,
        packages: [...packages],
        not_before,
        not_after,
        created_at: new Date(deps.clock.now()).toISOString(),
        created_by: caller.actor,
        revoked_at: null,
        revoked_reason: null,
      };
      const { key_id } = row;
      const audit = buildAudit(deps, caller, "trusted_key.trust", row.id, {
        key_id,
        name,
        packages: row.packages,
      });
      await store.trusted_keys.create(row, { audit });
      return row;
    },
    async revoke(caller, id, reason) {
      requireKeyAdmin(caller, "revoke a signing key");
      const key = await get(caller, id);
      if (key.revoked_at !== null) return key;
      const revoked = {
        ...key,
        revoked_at: new Date(deps.clock.now()).toISOString(),
        revoked_reason: reason,
      };
      const details = { key_id: key.key_id, name: key.name, reason };
      const audit = buildAudit(deps, caller, "trusted_key.revoke", id, details);
      await store.trusted_keys.revoke(revoked, { audit });
      return await get(caller, id);
    },
  };
}

function requireKeyAdmin(caller: Caller, action: string): void {
  requireWholeOrg(caller, action);
  if (caller.admin) return;
  throw new BackplaneError("auth.scope", `Only an admin credential may ${action}.`, {
    details: { needs: "admin" },
    fix: "Use the admin token, or a key of the whole org with the scope admin.",
  });
}
