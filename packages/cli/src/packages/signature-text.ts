import type { SignatureState } from "@backplane/contract";

export function describeSignature({ state, key_name, key_id, signed_at, reason }: SignatureState): string {
  const by = `${key_name} (${key_id}), signed ${signed_at}`;
  if (state === "verified") return `verified: ${by}`;
  if (state === "revoked") return `signed with a key that was revoked later: ${by}`;
  if (state === "expired") return `signed with a key that has expired: ${by}`;
  return state === "unsigned" ? "unsigned" : `not verified (${reason})`;
}
