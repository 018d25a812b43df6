/** Checks that a signature covers a package and was made by a trusted key. The error code states what is wrong. */

import { createPublicKey, hash, type KeyObject, verify } from "node:crypto";
import { BackplaneError, type PackageSignature, signedText, type TrustedKey } from "@backplane/contract";
import { PackageSignatureSchema } from "@backplane/contract/schema";

/** The values that the signature must contain. Before the files are fetched only the digest is known. */
export interface SignedPackage {
  digest: string;
  package_id?: string;
  version?: string;
  dependency_lock?: readonly { path: string; sha256: string }[];
}

export interface VerifiedSignature {
  signature: PackageSignature;
  key: TrustedKey;
}

/** Throws `signature.*`. `findKey` finds a key by its fingerprint, revoked or not. */
export async function verifySignature(
  document: unknown,
  signed: SignedPackage,
  findKey: (key_id: string) => Promise<TrustedKey | null>,
  now: number,
): Promise<VerifiedSignature> {
  const parsed = PackageSignatureSchema.safeParse(document);
  if (!parsed.success) {
    const field = parsed.error.issues[0]?.path.join(".") ?? "";
    throw new BackplaneError(
      "signature.invalid",
      `The signature cannot be read${field === "" ? "" : `: ${field}`}.`,
    );
  }
  const signature = parsed.data;
  requireMatchingValues(signature, signed);
  const { key_id, package_id } = signature;
  const key = await findKey(key_id);
  if (key === null)
    throw new BackplaneError(
      "signature.untrusted",
      `${package_id} is signed with ${key_id}, which is not trusted.`,
      {
        details: { key_id },
      },
    );
  const details = { key_id, key_name: key.name };
  const problem = findKeyProblem(key, package_id, now);
  if (problem === "signature.revoked")
    throw new BackplaneError(
      problem,
      `${package_id} is signed with ${key.name} (${key_id}), which was revoked${key.revoked_reason === null ? "" : `: ${key.revoked_reason}`}.`,
      { details: { ...details, revoked_at: key.revoked_at } },
    );
  if (problem === "signature.untrusted")
    throw new BackplaneError(
      problem,
      `${key.name} (${key_id}) is trusted for ${key.packages.join(", ")}, not for ${package_id}.`,
      {
        details,
        fix: `If the publisher may sign it: backplane key trust FILE --name NAME --packages '${[...key.packages, package_id].join(",")}'`,
      },
    );
  if (problem === "signature.expired") {
    const { not_before: from, not_after: until } = key;
    const period = [from && `from ${from}`, until && `until ${until}`].filter(Boolean).join(" ");
    throw new BackplaneError(problem, `${key.name} (${key_id}) is valid only ${period}.`, {
      details: { ...details, not_before: from, not_after: until },
    });
  }
  const bytes = Buffer.from(signedText(signature));
  if (!verify(null, bytes, readPublicKey(key.public_key), Buffer.from(signature.signature, "base64")))
    throw new BackplaneError(
      "signature.invalid",
      `The signature of ${package_id} was not made by ${key.name} (${key_id}).`,
      { details },
    );
  return { signature, key };
}

/**
 * Why the key may not sign this package now; null if it may. The time of signing is the signer's own claim, so a key has
 * to be valid now.
 */
export function findKeyProblem(
  { revoked_at, packages, not_before, not_after }: TrustedKey,
  package_id: string,
  now: number,
): "signature.revoked" | "signature.untrusted" | "signature.expired" | null {
  if (revoked_at !== null) return "signature.revoked";
  if (!packages.some((pattern) => coversPackage(pattern, package_id))) return "signature.untrusted";
  const has_begun = not_before === null || now >= Date.parse(not_before);
  const has_ended = not_after !== null && now > Date.parse(not_after);
  return has_begun && !has_ended ? null : "signature.expired";
}

function requireMatchingValues(signature: PackageSignature, signed: SignedPackage): void {
  const expected = { ...signed, dependency_lock: lockText(signed.dependency_lock) };
  const actual = { ...signature, dependency_lock: lockText(signature.dependency_lock) };
  for (const field of ["package_id", "version", "digest", "dependency_lock"] as const) {
    if (expected[field] === undefined || expected[field] === actual[field]) continue;
    throw new BackplaneError(
      "signature.mismatch",
      `The signature is for the ${field} ${actual[field]}, but the package has ${expected[field]}.`,
      { details: { field, signed: actual[field], actual: expected[field] } },
    );
  }
}

function lockText(lock: SignedPackage["dependency_lock"]): string | undefined {
  return lock === undefined
    ? undefined
    : lock.map(({ path, sha256 }) => `${path} ${sha256}`).join(", ") || "(none)";
}

function coversPackage(pattern: string, package_id: string): boolean {
  return (
    pattern === "*" ||
    pattern === package_id ||
    (pattern.endsWith("/*") && package_id.startsWith(pattern.slice(0, -1)))
  );
}

/** Throws `request.invalid` unless the text is an Ed25519 public key in PEM. */
export function readPublicKey(pem: string): KeyObject {
  try {
    const key = createPublicKey(pem);
    if (key.asymmetricKeyType === "ed25519" && !pem.includes("PRIVATE")) return key;
  } catch {
    // Reported below.
  }
  throw new BackplaneError("request.invalid", "public_key is not an Ed25519 public key in PEM.", {
    fix: "Send the .pub file that `backplane key generate` wrote.",
  });
}

/** The id of a key is derived from it, so nobody can claim the id of another key. */
export function signingKeyId(key: KeyObject): string {
  return `ed25519:${hash("sha256", key.export({ type: "spki", format: "der" }), "hex").slice(0, 32)}`;
}
