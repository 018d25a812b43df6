/** Applies `packages.require_signature` to packages that are about to be installed, and refuses older versions. */

import {
  BackplaneError,
  codeOf,
  compareVersions,
  type Package,
  type SignatureState,
} from "@backplane/contract";
import type { Caller, HighestSigned, ImportedPackage, KernelDeps } from "@backplane/ports";
import { type SignedPackage, type VerifiedSignature, verifySignature } from "./verify-signature.ts";

export interface SignaturePolicy {
  /** Throws `signature.*` if the origin requires a signature and none of `signatures` is valid. */
  check(
    caller: Caller,
    origin: Package["origin"],
    signed: SignedPackage,
    signatures: readonly unknown[],
  ): Promise<SignatureState>;
  /**
   * Checks an imported package like `check`. Throws `signature.rollback` for a version below the highest signed one if
   * the origin requires a signature and no downgrade is allowed. `highest` is stored together with the package.
   */
  checkImported(
    caller: Caller,
    imported: ImportedPackage,
    options: { signatures: readonly unknown[]; allow_downgrade: boolean },
  ): Promise<{ state: SignatureState; highest?: HighestSigned }>;
}

export function createSignaturePolicy({ store, clock, host }: KernelDeps): SignaturePolicy {
  async function check(
    { scope: { org_id } }: Caller,
    origin: Package["origin"],
    signed: SignedPackage,
    signatures: readonly unknown[],
  ): Promise<SignatureState> {
    const findKey = (key_id: string) => store.trusted_keys.findByKeyId(org_id, key_id);
    let refusal: unknown = new BackplaneError("signature.missing", describeMissingSignature(origin, signed));
    const verified = new Map<string, VerifiedSignature>();
    for (const signature of signatures) {
      try {
        const valid = await verifySignature(signature, signed, findKey, clock.now());
        if (!verified.has(valid.key.key_id)) verified.set(valid.key.key_id, valid);
      } catch (error) {
        if (!(codeOf(error) ?? "").startsWith("signature.")) throw error;
        refusal = pickCloser(refusal, error);
      }
    }
    const [first, ...further] = verified.values();
    if (first !== undefined) return toState(first, further);
    if (host.require_signature.includes(origin)) throw refusal;
    const state = signatures.length === 0 ? "unsigned" : "unverified";
    return { state, key_id: null, key_name: null, signed_at: null, reason: codeOf(refusal) ?? null };
  }

  async function checkImported(
    caller: Caller,
    { manifest: { package_id, version }, digest, dependency_lock = [], origin }: ImportedPackage,
    { signatures, allow_downgrade }: { signatures: readonly unknown[]; allow_downgrade: boolean },
  ) {
    const signed = { package_id, version, digest, dependency_lock };
    const state = await check(caller, origin, signed, signatures);
    const highest = await store.trusted_keys.findHighestSigned(caller.scope.org_id, package_id);
    const is_older = highest !== null && compareVersions(version, highest) < 0;
    if (is_older && host.require_signature.includes(origin) && !allow_downgrade)
      throw new BackplaneError(
        "signature.rollback",
        `${package_id} ${version} is older than ${highest}, which was installed before.`,
        { details: { package_id, version, highest } },
      );
    const is_higher =
      state.state === "verified" && (highest === null || compareVersions(version, highest) > 0);
    return { state, ...(is_higher ? { highest: { version } } : {}) };
  }

  return { check, checkImported };
}

function toState(first: VerifiedSignature, further: readonly VerifiedSignature[]): SignatureState {
  return {
    state: "verified",
    ...describeSignature(first),
    reason: null,
    ...(further.length === 0 ? {} : { further: further.map(describeSignature) }),
  };
}

function describeSignature({ signature, key }: VerifiedSignature) {
  return { key_id: key.key_id, key_name: key.name, signed_at: signature.signed_at };
}

/** The stages of a check in order. The refusal of the signature that came closest to being valid is shown. */
const STAGES = ["missing", "invalid", "mismatch", "untrusted", "expired", "revoked"];

function pickCloser(previous: unknown, error: unknown): unknown {
  const stageOf = (refusal: unknown) => STAGES.indexOf((codeOf(refusal) ?? "").slice("signature.".length));
  return stageOf(error) > stageOf(previous) ? error : previous;
}

function describeMissingSignature(origin: string, { package_id, version, digest }: SignedPackage): string {
  const name = package_id === undefined ? digest : `${package_id} ${version}`;
  return `${name} is not signed, and packages of the origin ${origin} need a signature.`;
}
