import { generateKeyPairSync, verify } from "node:crypto";
import { expect, test } from "vitest";
import { signClientAssertion } from "../../src/sign-ins/client-assertion.ts";

const claims = { client_id: "me", audience: "https://as.example", now: 1_700_000_000_000, jti: "once" };

test.each([
  ["ES256", generateKeyPairSync("ec", { namedCurve: "P-256" }), "sha256"],
  ["ES384", generateKeyPairSync("ec", { namedCurve: "P-384" }), "sha384"],
  ["RS256", generateKeyPairSync("rsa", { modulusLength: 2048 }), "sha256"],
  ["EdDSA", generateKeyPairSync("ed25519"), null],
])(
  "signs with %s a client assertion that is valid for five minutes",
  (alg, { privateKey, publicKey }, digest) => {
    const pem = privateKey.export({ type: "pkcs8", format: "pem" }) as string;
    const [head, body, signature] = signClientAssertion(pem, claims).split(".") as [string, string, string];
    const decode = (text: string) => JSON.parse(Buffer.from(text, "base64url").toString()) as object;
    expect(decode(head)).toEqual({ alg, typ: "JWT" });
    const iat = 1_700_000_000;
    const identity = { iss: "me", sub: "me", aud: "https://as.example", jti: "once" };
    expect(decode(body)).toEqual({ ...identity, iat, exp: iat + 300 });
    const key = { key: publicKey, dsaEncoding: "ieee-p1363" as const };
    expect(verify(digest, Buffer.from(`${head}.${body}`), key, Buffer.from(signature, "base64url"))).toBe(
      true,
    );
  },
);

test("refuses an unreadable private key without repeating it", () => {
  expect(() => signClientAssertion("hunter2-hunter2", claims)).toThrow(/PKCS#8/);
  expect(() => signClientAssertion("hunter2-hunter2", claims)).not.toThrow(/hunter2/);
  const { privateKey } = generateKeyPairSync("x25519");
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }) as string;
  expect(() => signClientAssertion(pem, claims)).toThrow(/must be RSA/);
});
