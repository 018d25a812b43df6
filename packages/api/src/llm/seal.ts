/**
 * Vendors attach a proof to the thinking of their models and check it when the thinking is sent back. A protocol has a
 * field for the proof of its own vendor only. The proof of another vendor is wrapped into that field, so that the
 * client returns it with its next request.
 */
const WRAPPED = "bp.";

/** `vendor` is the prefix of the seals that the protocol carries unchanged; null if it carries none. */
export function wrapSeal(seal: string, vendor: string | null): string {
  if (vendor !== null && seal.startsWith(vendor)) return seal.slice(vendor.length);
  return WRAPPED + Buffer.from(seal).toString("base64url");
}

export function unwrapSeal(proof: string, vendor: string): string {
  return isWrappedSeal(proof)
    ? Buffer.from(proof.slice(WRAPPED.length), "base64url").toString("utf8")
    : vendor + proof;
}

export function isWrappedSeal(proof: unknown): proof is string {
  return typeof proof === "string" && proof.startsWith(WRAPPED);
}
