/**
 * The state of a signature is stored when a package is installed, but its key can be revoked, changed or renewed, or can
 * expire later. Packages are shown, and changes to bindings are checked, with the state that a signature has now, if it
 * was valid at the installation.
 */
import type { Package, SignatureState, TrustedKey } from "@backplane/contract";
import type { KernelDeps } from "@backplane/ports";
import { findKeyProblem } from "./verify-signature.ts";

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
        const findState = async (candidate: SignatureState) =>
          currentState(candidate, row.package_id, await findKey(candidate.key_id!), clock.now());
        const current = await findState(signature);
        if (current.state === "verified") return { ...row, signature: current };
        for (const other of signature.further ?? []) {
          const by_other = await findState({ ...signature, ...other });
          if (by_other.state === "verified") return { ...row, signature: by_other };
        }
        return { ...row, signature: current };
      }),
    );
  };
}

const STATE_BY_PROBLEM = {
  "signature.revoked": "revoked",
  "signature.untrusted": "unverified",
  "signature.expired": "expired",
} as const;

function currentState(
  signature: SignatureState,
  package_id: string,
  key: TrustedKey | null,
  now: number,
): SignatureState {
  if (key === null) return { ...signature, state: "unverified", reason: "signature.untrusted" };
  const shown = { ...signature, key_name: key.name };
  const reason = findKeyProblem(key, package_id, now);
  return reason === null ? shown : { ...shown, state: STATE_BY_PROBLEM[reason], reason };
}
