/** Creates signing keys and signs packages. The registry module verifies signatures; both use `signedText`. */
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  hash,
  type KeyObject,
  sign,
} from "node:crypto";
import {
  BackplaneError,
  dependencyLockOf,
  type PackageSignature,
  SIGNATURE_FORMAT,
  signedText,
} from "@backplane/contract";

export interface SigningKey {
  key_id: string;
  /** PEM. */
  private_key: string;
  public_key: string;
}

export function generateSigningKey(): SigningKey {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  return {
    key_id: keyIdOf(publicKey),
    private_key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
    public_key: publicKey.export({ type: "spki", format: "pem" }) as string,
  };
}

/** `private_key` is PEM. */
export function signPackage(
  subject: {
    package_id: string;
    version: string;
    digest: string;
    files: readonly { path: string; sha256: string }[];
  },
  private_key: string,
  now: Date,
): PackageSignature {
  const key = readPrivateKey(private_key);
  const fields = {
    format: SIGNATURE_FORMAT,
    package_id: subject.package_id,
    version: subject.version,
    digest: subject.digest,
    dependency_lock: dependencyLockOf(subject.files),
    key_id: keyIdOf(createPublicKey(key)),
    signed_at: now.toISOString(),
  } as const;
  return { ...fields, signature: sign(null, Buffer.from(signedText(fields)), key).toString("base64") };
}

function keyIdOf(key: KeyObject): string {
  return `ed25519:${hash("sha256", key.export({ type: "spki", format: "der" }), "hex").slice(0, 32)}`;
}

function readPrivateKey(pem: string): KeyObject {
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyType === "ed25519") return key;
  } catch {
    // Reported below.
  }
  throw new BackplaneError("cli.usage", "The key is not an Ed25519 private key in PEM.", {
    fix: "Create one with `backplane key generate`.",
  });
}
