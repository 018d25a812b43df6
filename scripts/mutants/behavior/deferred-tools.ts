/** Deferred tools: which tools a catalog leaves for the search, and which it never does. */
import type { Mutant } from "../mutant.ts";

const DEFER = "packages/door/src/catalog/defer-tools.ts";
const DEFER_TOOLS_TESTS = ["packages/door/test/catalog/defer-tools.test.ts"];

export const DEFERRED_TOOLS_MUTANTS: Mutant[] = [
  {
    name: "deferral: the least used tools are deferred first",
    file: DEFER,
    from: "countCalls(a) - countCalls(b) ||",
    to: "countCalls(b) - countCalls(a) ||",
    tests: DEFER_TOOLS_TESTS,
  },
  {
    name: "deferral: a pinned tool is never deferred",
    file: DEFER,
    from: " && !policy.pinned(tool.name);",
    to: ";",
    tests: DEFER_TOOLS_TESTS,
  },
  {
    name: "deferral: the budget defers nothing if models cannot search",
    file: "packages/door/src/catalog/catalog.ts",
    from: "const has_budget = search !== null && caller.tools",
    to: "const has_budget = caller.tools",
    tests: DEFER_TOOLS_TESTS,
  },
  {
    name: "deferral: the cache of catalogs distinguishes the profiles of keys",
    file: "packages/door/src/catalog/catalog.ts",
    from: 'tools === undefined ? "" : tools.join(",")',
    to: 'tools === undefined ? "" : ""',
    tests: DEFER_TOOLS_TESTS,
  },
  {
    name: "deferral: a key cannot refer to a profile that does not exist",
    file: "packages/door/src/keys/keys.ts",
    from: "await requireProfiles(scope, body.tools ?? []);",
    to: "",
    tests: DEFER_TOOLS_TESTS,
  },
  {
    name: "deferral: a profile is expanded to its tools",
    file: DEFER,
    from: "findProfile(policy, pattern) ?? [pattern]",
    to: "[pattern]",
    tests: DEFER_TOOLS_TESTS,
  },
];
