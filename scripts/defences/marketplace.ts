/** An installation from the marketplace matches its card. */
import type { Mutant } from "./mutant.ts";

const MARKETPLACE = "packages/registry/src/marketplace/marketplace.ts";
const SCHEMA = "packages/contract/src/schema/marketplace.ts";
const CLI_TESTS = ["packages/cli/test/commands/plugin/marketplace.test.ts"];
const CARD_TESTS = ["packages/registry/test/marketplace/marketplace.test.ts"];
const MARKETPLACE_CATALOGS_TESTS = ["packages/supply/test/marketplace/marketplace-catalogs.test.ts"];

export const MARKETPLACE_DEFENCES: Mutant[] = [
  {
    defence: "marketplace: the artifact requests nothing that the card does not show",
    file: MARKETPLACE,
    from: "if (widerFilesystem(card.filesystem, requested.filesystem) !== card.filesystem)",
    to: "if (false)",
    tests: CLI_TESTS,
  },
  {
    defence: "marketplace: the artifact is the package on the card",
    file: MARKETPLACE,
    from: "pack.package_id !== package_id || pack.version !== version",
    to: "pack.package_id !== package_id",
    tests: CLI_TESTS,
  },
  {
    defence: "marketplace: the artifact has no export that the card does not show",
    file: MARKETPLACE,
    from: "throw mismatchError(entry, `the artifact also has the ${kind} ${id}`);",
    to: "continue;",
    tests: CARD_TESTS,
  },
  {
    defence: "marketplace: the key on the card has signed the artifact",
    file: MARKETPLACE,
    from: "signature.key_id === key_id",
    to: "key_id !== undefined",
    tests: CARD_TESTS,
  },
  {
    defence: "marketplace: the card has not changed since it was read",
    file: MARKETPLACE,
    from: "if (approved !== undefined && approved !== entry.oci)",
    to: "if (approved === null)",
    tests: CARD_TESTS,
  },
  {
    defence: "marketplace: commands to copy contain no character that a shell interprets",
    file: "packages/supply/src/marketplace/mcp-registry.ts",
    from: "/^https:\\/\\/[A-Za-z0-9._~:/?=%+,@-]+$/",
    to: "/^https:\\/\\/\\S+$/",
    tests: MARKETPLACE_CATALOGS_TESTS,
  },
  {
    defence: "marketplace: an available entry is signed",
    file: SCHEMA,
    from: '  mustHave("signature");\n',
    to: "",
    tests: MARKETPLACE_CATALOGS_TESTS,
  },
  {
    defence: "marketplace: an available entry has its lock",
    file: SCHEMA,
    from: '  mustHave("dependency_lock");\n',
    to: "",
    tests: MARKETPLACE_CATALOGS_TESTS,
  },
];
