/** Rollouts, rollbacks of packages, and who may move a binding to which version. */
import type { Mutant } from "./mutant.ts";

const UPGRADES = "packages/registry/src/bindings/upgrades.ts";
const ROLLBACKS = "packages/registry/src/bindings/rollbacks.ts";
const BINDINGS = "packages/registry/src/bindings/bindings.ts";
const SOURCE = "packages/contract/src/views/package-source.ts";
const ROLLBACK_TESTS = ["packages/registry/test/bindings/rollbacks.test.ts"];
const SOURCE_TESTS = ["packages/registry/test/bindings/bound-source.test.ts"];

export const ROLLOUT_DEFENSES: Mutant[] = [
  {
    name: "rollback: a package is rolled back once",
    file: "packages/contract/src/views/rollback.ts",
    from: "      previous.undone !== true &&\n",
    to: "",
    tests: ROLLBACK_TESTS,
  },
  {
    name: "rollback: a rollback does not return to a version that the gateway has rolled back",
    file: ROLLBACKS,
    from: "if (before.rolled_back !== undefined) throw alreadyRolledBackError([before]);",
    to: "",
    tests: ROLLBACK_TESTS,
  },
  {
    name: "rollout: a share is disabled with its binding",
    file: BINDINGS,
    from: "if (status !== undefined)",
    to: "if (status === undefined)",
    tests: ROLLBACK_TESTS,
  },
  {
    name: "rollout: settings of a binding do not change without its share",
    file: BINDINGS,
    from: "shares.length > 0 && Object.keys(settings).length > 0",
    to: "shares.length > 9 && Object.keys(settings).length > 0",
    tests: ROLLBACK_TESTS,
  },
  {
    name: "rollout: a share is removed with its binding",
    file: BINDINGS,
    from: "const rows = [binding, ...shares];",
    to: "const rows = [binding];",
    tests: ROLLBACK_TESTS,
  },
  {
    name: "rollout: a share starts with the current settings of its binding",
    file: UPGRADES,
    from: "if (current?.binding.generation === generation) continue;",
    to: "if (current?.binding.generation !== null) continue;",
    tests: ROLLBACK_TESTS,
  },
  {
    name: "rollout: a share with an older version gets its calls",
    file: "packages/registry/src/bindings/rollout.ts",
    from: "    if (share !== 0) return share;\n",
    to: "",
    tests: ROLLBACK_TESTS,
  },
  {
    name: "sec.credential-destination: a binding does not move to another source of its package",
    file: "packages/registry/src/bindings/plan-change.ts",
    from: "        requireBoundSource(before, from.package, checked.package);\n",
    to: "",
    tests: SOURCE_TESTS,
  },
  {
    name: "sec.credential-destination: a second binding has the source of the first",
    file: "packages/registry/src/bindings/plan-change.ts",
    from: "requireBoundSource(other_versions[0], from.package, checked.package);",
    to: "",
    tests: SOURCE_TESTS,
  },
  {
    name: "sec.credential-destination: the source of a package comes only from manifests that the gateway wrote",
    file: SOURCE,
    from: "NAME_OF_SOURCE[origin]?.exec(manifest.source)?.[0]",
    to: "(NAME_OF_SOURCE[origin] ?? /^[^@]+/).exec(manifest.source)?.[0]",
    tests: SOURCE_TESTS,
  },
  {
    name: "upgrade: only an admin transfers a waiver of approval to other bytes",
    file: "packages/registry/src/bindings/plan-change.ts",
    from: "if (!may_waive || (await",
    to: "if ((await",
    tests: ["packages/registry/test/bindings/waived-approvals.test.ts"],
  },
  {
    name: "rollout: an installation replaces the share of a rollout that was rolled back",
    file: "packages/registry/src/installations/installations.ts",
    from: "const removed = planner.planRemovals(caller, changes);",
    to: "const removed = planner.planRemovals(caller, []);",
    tests: ROLLBACK_TESTS,
  },
  {
    name: "rollout: models see the definitions of the version in use",
    file: "packages/registry/src/bindings/rollout.ts",
    from: "[...ordered.filter((bound) => !isShare(bound)), ...ordered.filter(isShare)]",
    to: "ordered",
    tests: ["packages/registry/test/bindings/pick-binding.test.ts"],
  },
  {
    name: "pkg.sign: a version whose key was revoked is not bound",
    file: "packages/registry/src/bindings/signed-versions.ts",
    from: "if (is_ended && deps.host",
    to: "if (!is_ended && deps.host",
    tests: ["packages/registry/test/signatures/signatures.test.ts"],
  },
  {
    name: "pkg.sign: only an admin leaves a signed version",
    file: "packages/registry/src/bindings/signed-versions.ts",
    from: 'state === "verified" || hasRole(caller.role, "admin")',
    to: "from !== null",
    tests: ["packages/registry/test/signatures/signatures.test.ts"],
  },
];
