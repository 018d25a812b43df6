/**
 * Checks the provenance of a package before npm fetches its archive. The lock contains the hash of the archive, and npm
 * accepts no other archive, so everything that is proven for the hash holds for the files.
 */
import { BackplaneError, type Provenance } from "@backplane/contract";
import type { Operation } from "@backplane/ports";
import type { Npm } from "../npm/npm-command.ts";
import type { LockedPackage } from "../npm/npm-install.ts";
import { readAttestations } from "./read-attestations.ts";
import type { TrustRoot } from "./trust-root.ts";
import { invalidProvenance, verifyAttestation } from "./verify-attestation.ts";

/** Throws `provenance.*` if the package must not be installed. `folder` is where npm runs. */
export type CheckProvenance = (
  locked: LockedPackage,
  folder: string,
  operation: Operation,
) => Promise<Provenance>;

export interface ProvenanceOptions {
  npm: Pick<Npm, "readSettings">;
  trust_root: TrustRoot;
  /** Names of packages that are installed only with provenance; `*` at the end matches any text. */
  required: readonly string[];
  now: () => number;
  request_ms?: number;
}

export function createProvenanceCheck({
  npm,
  trust_root,
  required,
  now,
  request_ms,
}: ProvenanceOptions): CheckProvenance {
  return async (locked, folder, operation) => {
    const { name, version } = locked;
    operation.report({ step: "verify", message: `Checking the provenance of ${name} ${version}` });
    const attestations = await readAttestations(
      await npm.readSettings(folder),
      locked,
      operation,
      request_ms,
    );
    const checked_at = new Date(now()).toISOString();
    if (attestations.state !== "found") {
      const reason = attestations.state === "unavailable" ? attestations.reason : null;
      if (required.some((pattern) => matchesPattern(pattern, name))) throw missingProvenance(locked, reason);
      return {
        state: attestations.state,
        reason,
        build: null,
        logged_at: null,
        checked_at,
        trust_root: null,
      };
    }
    const attested = { name, version, sha512: sha512Of(locked) };
    const { material, description } = await trust_root.load();
    const verified = [];
    for (const bundle of attestations.bundles)
      verified.push(await verifyAttestation(bundle, attested, material));
    return { state: "verified", reason: null, ...verified[0]!, checked_at, trust_root: description };
  };
}

/** npm accepts an archive that matches any of the listed hashes, so there must be exactly one. */
function sha512Of({ name, version, integrity }: LockedPackage): string {
  const [only, ...more] = integrity.split(/\s+/).filter((hash) => hash.startsWith("sha512-"));
  if (only === undefined || more.length > 0)
    throw invalidProvenance(
      { name, version },
      "the registry does not list exactly one SHA-512 hash of the archive",
    );
  return Buffer.from(only.slice("sha512-".length).replace(/\?.*$/, ""), "base64").toString("hex");
}

function matchesPattern(pattern: string, name: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

function missingProvenance({ name, version }: LockedPackage, reason: string | null): BackplaneError {
  const why = reason === null ? "its publisher published none" : `it cannot be read: ${reason}`;
  return new BackplaneError("provenance.missing", `npm:${name}@${version} requires provenance, but ${why}.`, {
    details: { name, version },
  });
}
