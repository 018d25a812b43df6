/** Reports about newer versions of packages in registries. */
import type { Mutant } from "./mutant.ts";

const REGISTRY_VERSIONS = "packages/registry/src/versions/registry-versions.ts";
const REGISTRY_VERSIONS_TESTS = ["packages/registry/test/versions/registry-versions.test.ts"];

export const VERSION_DEFENSES: Mutant[] = [
  {
    name: "upgrade: only an admin makes the gateway read a registry",
    file: REGISTRY_VERSIONS,
    from: '    requireSourceAccess(caller, "oci");\n',
    to: "",
    tests: REGISTRY_VERSIONS_TESTS,
  },
  {
    name: "upgrade: pre-releases are offered only to a package that is one",
    file: REGISTRY_VERSIONS,
    from: "(isPrerelease(stated) && !allows_prereleases)",
    to: "false",
    tests: REGISTRY_VERSIONS_TESTS,
  },
  {
    name: "upgrade: another package in the same repository is not a newer version",
    file: REGISTRY_VERSIONS,
    from: "if (offered?.package_id !== pack.package_id)",
    to: "if (offered === undefined)",
    tests: REGISTRY_VERSIONS_TESTS,
  },
  {
    name: "upgrade: a tag that contains another version is not a newer version",
    file: REGISTRY_VERSIONS,
    from: "expected !== null && compareVersions(expected, version) !== 0",
    to: "false",
    tests: REGISTRY_VERSIONS_TESTS,
  },
  {
    name: "upgrade: other content under the installed version is not current",
    file: REGISTRY_VERSIONS,
    from: "version === pack.version && stated.manifest_digest !== pack.oci?.manifest_digest",
    to: "false",
    tests: REGISTRY_VERSIONS_TESTS,
  },
  {
    name: "upgrade: a version that cannot be compared is not current",
    file: REGISTRY_VERSIONS,
    from: "if (!VersionSchema.safeParse(version).success)",
    to: "if (false)",
    tests: REGISTRY_VERSIONS_TESTS,
  },
];
