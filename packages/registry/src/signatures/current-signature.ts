/**
 * The state of a signature is stored when a package is installed, but its key can be revoked or expire later. Packages
 * are shown with the state that their signature has now.
 */
import type { Package, SignatureState, TrustedKey } from "@backplane/contract";
import type { KernelDeps } from "@backplane/ports";

export type WithCurrentSignatures = (org_id: string, rows: readonly Package[]) => Promise<Package[]>;

export function createCurrentSignatures({
  store,
  clock,
}: Pick<KernelDeps, "store" | "clock">): WithCurrentSignatures {
  return async (org_id, rows) => {
    const keys = new Map<string, Promise<TrustedKey | null>>();
    const findKey = (key_id: string) => {
      const key = keys.get(key_id) ?? store.trusted_keys.findByKeyId(org_id, key_id);
      keys.set(key_id, key);
      return key;
    };
    return await Promise.all(
      rows.map(async (row) => {
        const { signature } = row;
        if (signature?.state !== "verified" || signature.key_id === null) return row;
        const current = currentState(signature, await findKey(signature.key_id), clock.now());
        if (current.state === "verified") return { ...row, signature: current };
        for (const other of signature.further ?? []) {
          const by_other = currentState({ ...signature, ...other }, await findKey(other.key_id), clock.now());
          if (by_other.state === "verified") return { ...row, signature: by_other };
        }
        return { ...row, signature: current };
      }),
    );
  };
}

function currentState(signature: SignatureState, key: TrustedKey | null, now: number): SignatureState {
  if (key === null) return { ...signature, state: "unverified", reason: "signature.untrusted" };
  if (key.revoked_at !== null) return { ...signature, state: "revoked", reason: "signature.revoked" };
  if (key.not_after !== null && now > Date.parse(key.not_after))
    return { ...signature, state: "expired", reason: "signature.expired" };
  return signature;
}
