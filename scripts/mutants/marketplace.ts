/** An installation from the marketplace matches its card. */
import type { Mutant } from "./mutant.ts";

const MARKETPLACE = "packages/registry/src/marketplace/marketplace.ts";
const SCHEMA = "packages/contract/src/schema/marketplace.ts";
const CLI_TESTS = ["packages/cli/test/commands/plugin/marketplace.test.ts"];
const CARD_TESTS = ["packages/registry/test/marketplace/marketplace.test.ts"];
const KERNEL_TESTS = ["packages/registry/test/marketplace/catalogs.test.ts"];
const MARKETPLACE_CATALOGS_TESTS = ["packages/supply/test/marketplace/marketplace-catalogs.test.ts"];

const INSTALLATIONS = "packages/registry/src/installations/installations.ts";
const ENTRY_VERSIONS = "packages/registry/src/versions/entry-versions.ts";
const OFFER_TESTS = ["packages/registry/test/marketplace/upgrade-offers.test.ts"];
const ENTRY_VERSIONS_TESTS = ["packages/registry/test/versions/entry-versions.test.ts"];

export const MARKETPLACE_DEFENSES: Mutant[] = [
  {
    name: "marketplace: an installation moves no bindings",
    file: INSTALLATIONS,
    from: "moves_bindings: entry === undefined",
    to: "moves_bindings: true",
    tests: OFFER_TESTS,
  },
  {
    name: "marketplace: a binding that was created in the meantime does not move either",
    file: INSTALLATIONS,
    from: "if (!options.moves_bindings && changes.some(isUpdate)) continue;",
    to: "",
    tests: OFFER_TESTS,
  },
  {
    name: "marketplace: settings are refused if the bindings stay unchanged",
    file: INSTALLATIONS,
    from: "if (bound !== undefined) requireNoUpgradeSettings(bound, parts[0]!.row, settings);",
    to: "",
    tests: OFFER_TESTS,
  },
  {
    name: "marketplace: the command installs the artifact that it has shown",
    file: "packages/cli/src/install/install-entry.ts",
    from: "card.oci === null ? {} : { oci: card.oci }",
    to: "{}",
    tests: CLI_TESTS,
  },
  {
    name: "marketplace: an entry that cannot be installed is not a newer version",
    file: ENTRY_VERSIONS,
    from: 'if (entry.status !== "available")',
    to: "if (false)",
    tests: ENTRY_VERSIONS_TESTS,
  },
  {
    name: "marketplace: other content under the installed version is not current",
    file: ENTRY_VERSIONS,
    from: "version === pack.version && digestOf(entry.oci) !== digestOf(pack.oci?.reference ?? null)",
    to: "false",
    tests: ENTRY_VERSIONS_TESTS,
  },
  {
    name: "marketplace: the artifact requests nothing that the card does not show",
    file: MARKETPLACE,
    from: "if (widerFilesystem(card.filesystem, requested.filesystem) !== card.filesystem)",
    to: "if (false)",
    tests: CLI_TESTS,
  },
  {
    name: "marketplace: the artifact is the package on the card",
    file: MARKETPLACE,
    from: "pack.package_id !== package_id || pack.version !== version",
    to: "pack.package_id !== package_id",
    tests: CLI_TESTS,
  },
  {
    name: "marketplace: the artifact has no export that the card does not show",
    file: MARKETPLACE,
    from: "throw mismatchError(entry, `the artifact also has the ${kind} ${id}`);",
    to: "continue;",
    tests: CARD_TESTS,
  },
  {
    name: "marketplace: the key on the card has signed the artifact",
    file: MARKETPLACE,
    from: "signature.key_id === key_id",
    to: "key_id !== undefined",
    tests: CARD_TESTS,
  },
  {
    name: "marketplace: the card has not changed since it was read",
    file: MARKETPLACE,
    from: "if (approved !== undefined && approved !== entry.oci)",
    to: "if (approved === null)",
    tests: CARD_TESTS,
  },
  {
    name: "marketplace: a package that describes its tools only when it runs is not bound",
    file: MARKETPLACE,
    from: "if (bind) throw startsToBindError(entry);",
    to: 'if (entry.id === "") throw startsToBindError(entry);',
    tests: KERNEL_TESTS,
  },
  {
    name: "marketplace: the first catalog that has an id wins",
    file: "packages/registry/src/marketplace/entries.ts",
    from: "if (!entries_by_id.has(entry.id)) entries_by_id.set",
    to: "entries_by_id.set",
    tests: KERNEL_TESTS,
  },
  {
    name: "marketplace: a key of another package is not shown as trusted",
    file: MARKETPLACE,
    from: "key !== null && findKeyProblem(key, entry.package.package_id, clock.now()) === null",
    to: "key !== null && findKeyProblem !== undefined && clock !== undefined",
    tests: KERNEL_TESTS,
  },
  {
    name: "marketplace: an unknown key is not shown as trusted",
    file: MARKETPLACE,
    from: "key !== null && findKeyProblem(key, entry.package.package_id, clock.now()) === null",
    to: "key === null || findKeyProblem(key, entry.package.package_id, clock.now()) === null",
    tests: KERNEL_TESTS,
  },
  {
    name: "marketplace: only operators send text to a public registry",
    file: MARKETPLACE,
    from: 'requireOperator(caller, "search the public registry");',
    to: "void requireOperator;",
    tests: [...KERNEL_TESTS, "packages/api/test/routes/marketplace.test.ts"],
  },
  {
    name: "marketplace: a card that cannot be installed has no command to install it",
    file: "packages/cli/src/install/card-text.ts",
    from: "if (!card.installable) return [",
    to: "if (card.installable === null) return [",
    tests: ["packages/cli/test/commands/plugin/search-plugins.test.ts"],
  },
  {
    name: "marketplace: commands to copy contain no character that a shell interprets",
    file: "packages/supply/src/marketplace/mcp-registry.ts",
    from: "/^https:\\/\\/[A-Za-z0-9._~:/?=%+,@-]+$/",
    to: "/^https:\\/\\/\\S+$/",
    tests: MARKETPLACE_CATALOGS_TESTS,
  },
  {
    name: "marketplace: an available entry is signed",
    file: SCHEMA,
    from: '  mustHave("signature");\n',
    to: "",
    tests: MARKETPLACE_CATALOGS_TESTS,
  },
  {
    name: "marketplace: an available entry has its lock",
    file: SCHEMA,
    from: '  mustHave("dependency_lock");\n',
    to: "",
    tests: MARKETPLACE_CATALOGS_TESTS,
  },
];
