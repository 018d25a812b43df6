/** private_key_jwt (RFC 7523): the client authenticates with a short-lived JWT that it signs with its private key. */
import { createPrivateKey, type KeyObject, sign } from "node:crypto";
import { signInFailedError } from "./oauth-fetch.ts";

const LIFETIME_S = 300;
const CURVES: Record<string, { alg: string; digest: string }> = {
  prime256v1: { alg: "ES256", digest: "sha256" },
  secp384r1: { alg: "ES384", digest: "sha384" },
  secp521r1: { alg: "ES512", digest: "sha512" },
};

export function signClientAssertion(
  pem: string,
  claims: { client_id: string; audience: string; now: number; jti: string },
): string {
  const key = parsePrivateKey(pem);
  const { alg, digest } = algorithmOf(key);
  const iat = Math.floor(claims.now / 1_000);
  const body = {
    iss: claims.client_id,
    sub: claims.client_id,
    aud: claims.audience,
    jti: claims.jti,
    iat,
    exp: iat + LIFETIME_S,
  };
  const text = `${encodeJson({ alg, typ: "JWT" })}.${encodeJson(body)}`;
  const signature = sign(digest, Buffer.from(text), { key, dsaEncoding: "ieee-p1363" });
  return `${text}.${signature.toString("base64url")}`;
}

/** The error must not contain the key. */
export function parsePrivateKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    throw signInFailedError(
      "the private key cannot be read; write it as PKCS#8 in PEM, without a passphrase",
    );
  }
}

function algorithmOf(key: KeyObject): { alg: string; digest: string | null } {
  const curve = key.asymmetricKeyDetails?.namedCurve;
  if (key.asymmetricKeyType === "ec" && curve !== undefined && CURVES[curve] !== undefined)
    return CURVES[curve];
  if (key.asymmetricKeyType === "rsa") return { alg: "RS256", digest: "sha256" };
  if (key.asymmetricKeyType === "ed25519") return { alg: "EdDSA", digest: null };
  throw signInFailedError("the private key must be RSA, Ed25519, or on the curve P-256, P-384 or P-521");
}

function encodeJson(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
