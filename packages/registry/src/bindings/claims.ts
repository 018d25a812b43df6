/**
 * Lets a change depend on bindings that it does not write. Another request may change those after they were read, so the
 * store refuses the write if any binding of the org has changed, and the condition is checked again.
 */
import { type BackplaneError, codeOf } from "@backplane/contract";
import type { KernelDeps } from "@backplane/ports";

/** A condition that held when the bindings of the org had this revision. */
export interface Claim {
  revision: number;
  /** Checks the condition again. Throws if it no longer holds. */
  renew(): Promise<Claim>;
}

/** Limits the attempts of a write that keeps conflicting with other changes. */
const MAX_WRITES = 200;

/** `check` throws if the condition does not hold. */
export async function createClaim(
  store: Pick<KernelDeps["store"], "bindings">,
  org_id: string,
  check: () => Promise<void>,
): Promise<Claim> {
  // The revision is read before the check: a change between the two makes the claim outdated, never wrong.
  const revision = await store.bindings.getRevision(org_id);
  await check();
  return { revision, renew: () => createClaim(store, org_id, check) };
}

export async function writeClaimed<T>(
  claims: readonly (Claim | null)[],
  write: (expected_revision: number | null) => Promise<T>,
): Promise<T> {
  let current = claims.filter((claim) => claim !== null);
  for (let attempts_left = MAX_WRITES; ; attempts_left--) {
    try {
      return await write(current.length === 0 ? null : Math.min(...current.map(({ revision }) => revision)));
    } catch (error) {
      if (attempts_left === 0 || !isOutdatedClaim(error)) throw error;
      current = await Promise.all(current.map((claim) => claim.renew()));
    }
  }
}

function isOutdatedClaim(error: unknown): boolean {
  return codeOf(error) === "binding.conflict" && (error as BackplaneError).details?.names_at !== undefined;
}
