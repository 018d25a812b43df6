/**
 * Decides whether a binding may use a version, by its signature. The signature was checked when the package was
 * installed, but a binding may come to use the version much later, after its key was revoked.
 */
import { BackplaneError, type Package } from "@backplane/contract";
import { type Caller, hasRole, type KernelDeps } from "@backplane/ports";
import { createCurrentSignatures } from "../signatures/current-signature.ts";
import { wasVerified } from "./bound-source.ts";

export interface SignedVersions {
  /**
   * Throws `signature.revoked` or `signature.expired` if the origin of the package requires a signature and its key is
   * no longer valid, and `policy.denied` if the caller may not leave a signed version (`from`) for one without a valid
   * signature.
   */
  require(caller: Caller, from: Package | null, to: Package): Promise<void>;
}

export function createSignedVersions(deps: Pick<KernelDeps, "store" | "clock" | "host">): SignedVersions {
  const withCurrentSignatures = createCurrentSignatures(deps);
  return {
    async require(caller, from, to) {
      const [{ package_id, version, origin, signature } = to] = await withCurrentSignatures(to.org_id, [to]);
      const state = signature?.state ?? "unsigned";
      const is_ended = state === "revoked" || state === "expired";
      if (is_ended && deps.host.require_signature.includes(origin))
        throw new BackplaneError(
          `signature.${state}`,
          `${package_id} ${version} is signed with the key ${signature!.key_name}, which ${state === "revoked" ? "was revoked" : "has expired"}.`,
          { details: { package_id, version, key_id: signature!.key_id } },
        );
      if (from === null || !wasVerified(from) || state === "verified" || hasRole(caller.role, "admin"))
        return;
      throw new BackplaneError(
        "policy.denied",
        `${package_id} ${from.version} is signed with the key ${from.signature!.key_name}, and ${version} has no valid signature. Only an owner or admin may change a binding from a signed version to such a version.`,
        { fix: "Use a version that the publisher has signed, or ask an admin." },
      );
    },
  };
}
