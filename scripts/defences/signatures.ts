/** Packages from registries: digests, destinations of credentials, and signatures. */
import type { Mutant } from "./mutant.ts";

const OCI = "packages/supply/src/oci";
const SIGNATURES = "packages/registry/src/signatures";
const CLIENT_TEST = ["packages/supply/test/registry-client.test.ts"];
const CREDENTIALS_TEST = ["packages/supply/test/registry-credentials.test.ts"];
const SOURCE_TEST = ["packages/supply/test/oci-source.test.ts"];
const SIGNATURE_TEST = ["packages/registry/test/signatures/signatures.test.ts"];

export const SIGNATURE_DEFENCES: Mutant[] = [
  {
    defence: "oci: a manifest is compared with its digest",
    file: `${OCI}/registry-client.ts`,
    from: "if (digest !== expected) throw digestMismatch(",
    to: "if (false) throw digestMismatch(",
    tests: CLIENT_TEST,
  },
  {
    defence: "oci: a blob is compared with its digest",
    file: `${OCI}/registry-client.ts`,
    from: "if (actual !== digest) throw digestMismatch(",
    to: "if (false) throw digestMismatch(",
    tests: CLIENT_TEST,
  },
  {
    defence: "oci: a credential is sent to its own registry only",
    file: `${OCI}/registry-session.ts`,
    from: "authorization !== undefined && url.origin === base.origin",
    to: "authorization !== undefined",
    tests: CREDENTIALS_TEST,
  },
  {
    defence: "oci: a token server of another host gets no credential",
    file: `${OCI}/registry-session.ts`,
    from: "own ? credential : null",
    to: "credential",
    tests: CREDENTIALS_TEST,
  },
  {
    defence: "oci: the unpacked layer has the files of the listing",
    file: "packages/supply/src/import/open-artifact.ts",
    from: "  if (digest === artifact.digest) return;\n",
    to: "  return;\n",
    tests: SOURCE_TEST,
  },
  {
    defence: "packages: credentials in archives are refused",
    file: "packages/supply/src/import/create-package-importer.ts",
    from: '    credentials.assertNone("archive");\n',
    to: "",
    tests: SOURCE_TEST,
  },
  {
    defence: "signatures: the bytes are verified",
    file: `${SIGNATURES}/verify-signature.ts`,
    from: "if (!verify(null,",
    to: "if (false && !verify(null,",
    tests: SIGNATURE_TEST,
  },
  {
    defence: "signatures: a revoked key is refused",
    file: `${SIGNATURES}/verify-signature.ts`,
    from: "  if (key.revoked_at !== null)\n",
    to: "  if (false)\n",
    tests: SIGNATURE_TEST,
  },
  {
    defence: "signatures: a signature names this package",
    file: `${SIGNATURES}/verify-signature.ts`,
    from: "  requireSame(signature, signed);\n",
    to: "",
    tests: SIGNATURE_TEST,
  },
  {
    defence: "signatures: an older version is refused",
    file: `${SIGNATURES}/signature-policy.ts`,
    from: "compareVersions(version, before) < 0",
    to: "false",
    tests: SIGNATURE_TEST,
  },
];
