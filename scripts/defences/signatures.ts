/** Packages from registries: digests, destinations of credentials, and signatures. */
import type { Mutant } from "./mutant.ts";

const OCI = "packages/supply/src/oci";
const SIGNATURES = "packages/registry/src/signatures";
const CLIENT_TESTS = ["packages/supply/test/oci/registry-client.test.ts"];
const CREDENTIALS_TESTS = ["packages/supply/test/oci/registry-credentials.test.ts"];
const SOURCE_TESTS = ["packages/supply/test/oci/oci-source.test.ts"];
const PACK_TESTS = ["packages/supply/test/pack/pack-folder.test.ts"];
const PROVENANCE = "packages/supply/src/provenance";
const ATTESTATION_TESTS = ["packages/supply/test/provenance/verify-attestation.test.ts"];
const PROVENANCE_TESTS = ["packages/supply/test/provenance/check-provenance.test.ts"];
const SIGNATURE_TESTS = ["packages/registry/test/signatures/signatures.test.ts"];

export const SIGNATURE_DEFENCES: Mutant[] = [
  {
    defence: "oci: an outdated list of signatures does not replace a newer one",
    file: `${OCI}/push-layout.ts`,
    from: "sent === refused ? {} : { condition }",
    to: "{}",
    tests: ["packages/supply/test/oci/push-layout.test.ts"],
  },
  {
    defence: "oci: a manifest is compared with its digest",
    file: `${OCI}/registry-client.ts`,
    from: "if (digest !== expected) throw digestMismatch(",
    to: "if (false) throw digestMismatch(",
    tests: CLIENT_TESTS,
  },
  {
    defence: "oci: a blob is compared with its digest",
    file: `${OCI}/registry-client.ts`,
    from: "if (actual !== digest) throw digestMismatch(",
    to: "if (false) throw digestMismatch(",
    tests: CLIENT_TESTS,
  },
  {
    defence: "oci: a credential is sent to its own registry only",
    file: `${OCI}/registry-session.ts`,
    from: "authorization !== undefined && url.origin === base.origin",
    to: "authorization !== undefined",
    tests: CREDENTIALS_TESTS,
  },
  {
    defence: "oci: a token server on another host gets no credential",
    file: `${OCI}/registry-session.ts`,
    from: "is_trusted_realm ? credential : null",
    to: "credential",
    tests: CREDENTIALS_TESTS,
  },
  {
    defence: "oci: the unpacked layer has the files of the listing",
    file: `${OCI}/require-same-files.ts`,
    from: "  if (digest === artifact.digest) return;\n",
    to: "  return;\n",
    tests: SOURCE_TESTS,
  },
  {
    defence: "oci: a pulled layer has the files of the listing",
    file: `${OCI}/pull-layout.ts`,
    from: "  requireSameFiles(artifact, listing);\n",
    to: "",
    tests: ["packages/supply/test/oci/hostile-registry.test.ts"],
  },
  {
    defence: "packages: gateway tokens are credentials",
    file: "packages/supply/src/credentials/scan-credentials.ts",
    from: "|AIza|${TOKEN_PREFIX_SOURCE}`",
    to: "|AIza`",
    tests: PACK_TESTS,
  },
  {
    defence: "packages: an escaped private key is a credential",
    file: "packages/supply/src/credentials/scan-credentials.ts",
    from: "(?:\\s|\\\\{1,4}[nr])",
    to: "\\s",
    tests: PACK_TESTS,
  },
  {
    defence: "packages: credentials in archives are refused",
    file: "packages/supply/src/import/create-package-importer.ts",
    from: '    credentials.assertNone("archive");\n',
    to: "",
    tests: SOURCE_TESTS,
  },
  {
    defence: "signatures: the bytes are verified",
    file: `${SIGNATURES}/verify-signature.ts`,
    from: "if (!verify(null,",
    to: "if (false && !verify(null,",
    tests: SIGNATURE_TESTS,
  },
  {
    defence: "signatures: a revoked key is refused",
    file: `${SIGNATURES}/verify-signature.ts`,
    from: 'if (revoked_at !== null) return "signature.revoked";',
    to: "void revoked_at;",
    tests: SIGNATURE_TESTS,
  },
  {
    defence: "signatures: a signature is for this package",
    file: `${SIGNATURES}/verify-signature.ts`,
    from: "  requireMatchingValues(signature, signed);\n",
    to: "",
    tests: SIGNATURE_TESTS,
  },
  {
    defence: "signatures: a key that was revoked later is shown",
    file: `${SIGNATURES}/current-signature.ts`,
    from: "const reason = findKeyProblem(key, package_id, now);",
    to: "const reason = null as ReturnType<typeof findKeyProblem>; void package_id; void now; void findKeyProblem;",
    tests: SIGNATURE_TESTS,
    only: "revoked or expired after the installation",
  },
  {
    defence: "signatures: a revoked key cannot be trusted again",
    file: `${SIGNATURES}/trusted-keys.ts`,
    from: "if (known !== null) requireNotRevoked(known);",
    to: "",
    tests: SIGNATURE_TESTS,
    only: "a revoked key has signed",
  },
  {
    defence: "signatures: a change of a key does not undo its revocation",
    file: "packages/store/src/ops/trusted-keys.ts",
    from: " and body = $4 returning id",
    to: " and $4 <> '' returning id",
    tests: ["packages/store/test/stores/contract-sqlite.test.ts"],
    only: "replaces a trusted key only as it was read",
  },
  {
    defence: "signatures: a renewal without packages does not extend the trust",
    file: `${SIGNATURES}/trusted-keys.ts`,
    from: "packages = known.packages,",
    to: "packages = NEW_KEY.packages,",
    tests: SIGNATURE_TESTS,
    only: "corrects and renews",
  },
  {
    defence: "signatures: a period that is over is refused",
    file: `${SIGNATURES}/trusted-keys.ts`,
    from: "if (until <= now)",
    to: "if (until < now - 1_000_000_000_000_000)",
    tests: SIGNATURE_TESTS,
    only: "refuses to trust a key for a period",
  },
  {
    defence: "signatures: an older version is refused",
    file: `${SIGNATURES}/signature-policy.ts`,
    from: "compareVersions(version, highest) < 0",
    to: "false",
    tests: SIGNATURE_TESTS,
  },
  {
    defence: "signatures: the highest version is stored, whichever installation commits last",
    file: "packages/store/src/ops/trusted-keys.ts",
    from: "compareVersions(p.version, stored) <= 0",
    to: "true",
    tests: ["packages/store/test/stores/contract-sqlite.test.ts"],
    only: "highest signed version",
  },
  {
    defence: "provenance: the bundle is verified",
    file: `${PROVENANCE}/verify-attestation.ts`,
    from: "signer = new Verifier(trust).verify(toSignedEntity(parsed));",
    to: "signer = new Verifier(trust, { tlogThreshold: 0, ctlogThreshold: 0 }).verify(toSignedEntity(parsed));",
    tests: ATTESTATION_TESTS,
  },
  {
    defence: "provenance: the statement is about this package",
    file: `${PROVENANCE}/verify-attestation.ts`,
    from: "if (!named.some((subject) => decodePurl(subject.name) === purl))",
    to: "if (named.length === 0)",
    tests: ATTESTATION_TESTS,
  },
  {
    defence: "provenance: the statement is about this archive",
    file: `${PROVENANCE}/verify-attestation.ts`,
    from: "if (!matching.some(({ digest }) => digest?.sha512 === sha512))",
    to: "if (matching.length === 0)",
    tests: ATTESTATION_TESTS,
  },
  {
    defence: "provenance: the statement does not contradict the certificate",
    file: `${PROVENANCE}/verify-attestation.ts`,
    from: "source.commit !== undefined && source.commit !== build.commit",
    to: "false",
    tests: ATTESTATION_TESTS,
  },
  {
    defence: "provenance: the number of log entries is bounded",
    file: `${PROVENANCE}/verify-attestation.ts`,
    from: "if (entries > MAX_ENTRIES)",
    to: "if (false)",
    tests: ATTESTATION_TESTS,
  },
  {
    defence: "provenance: the lock contains one hash",
    file: `${PROVENANCE}/check-provenance.ts`,
    from: "if (only === undefined || more.length > 0)",
    to: "if (only === undefined)",
    tests: PROVENANCE_TESTS,
  },
  {
    defence: "provenance: every attestation has to be valid",
    file: `${PROVENANCE}/check-provenance.ts`,
    from: "for (const bundle of attestations.bundles)",
    to: "for (const bundle of attestations.bundles.slice(0, 1))",
    tests: PROVENANCE_TESTS,
  },
  {
    defence: "provenance: the record of a kernel plugin belongs to its version",
    file: "packages/supply/src/kernel-plugins/provenance-record.ts",
    from: "if (record === null && previous === undefined) return;",
    to: "if (record === null) return;",
    tests: ["packages/supply/test/kernel-plugins/create-plugin-sources.test.ts"],
    only: "records the provenance of a kernel plugin",
  },
  {
    defence: "provenance: required provenance cannot be missing",
    file: `${PROVENANCE}/check-provenance.ts`,
    from: "if (required.some((pattern) => matchesPattern(pattern, name)))",
    to: "if (reason !== null && required.some((pattern) => matchesPattern(pattern, name)))",
    tests: PROVENANCE_TESTS,
  },
];
