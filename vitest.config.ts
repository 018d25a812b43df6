import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/vitest/longest-first.ts";

const conditions = ["backplane-source", "node"];

/** Workspace packages resolve to their sources, so a test never runs against a stale build. */
const shared = {
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: ["backplane-source", "node"] } },
};

/** How long `expect.poll` waits. `npm run mutate` sets a shorter time, because polling broken code is often in vain. */
const poll = { timeout: Number(process.env.BACKPLANE_POLL_MS ?? 60_000), interval: 20 };

/** By default, every use of an import from a Node module goes through a proxy, which took a tenth of the run time. */
const deps = { interopDefault: false };

export default defineConfig({
  ...shared,
  test: {
    // Some workers are always waiting: for a limit to pass, a process to start or an outage to end.
    maxWorkers: availableParallelism() + 2,
    sequence: { sequencer: LongestFirst },
    reporters: [
      "default",
      ["json", { outputFile: `reports/${process.env.BACKPLANE_REPORT ?? "tests"}.json` }],
    ],
    projects: [
      {
        ...shared,
        test: {
          name: "fast",
          deps,
          globalSetup: ["test/support/vitest/run-folder.ts"],
          // The files of a worker share its modules. Loading them again for every file took half of the run time.
          isolate: false,
          setupFiles: ["test/support/vitest/fresh-process.ts", "test/support/vitest/seed.ts"],
          include: [
            "packages/*/test/**/*.test.ts",
            "plugins/*/test/**/*.test.ts",
            "test/**/*.test.ts",
            "examples/*/test/**/*.test.ts",
          ],
          exclude: ["**/node_modules/**", "test/slow/**"],
          // These limits end tests that hang. On a busy machine (load 20) a test that passes takes ten times as long.
          testTimeout: 120_000,
          hookTimeout: 120_000,
          expect: { requireAssertions: true, poll },
        },
      },
      {
        ...shared,
        test: {
          name: "slow",
          deps,
          // Many of these tests wait for outages, leases and restarts. Projects with a different `maxWorkers` must be in
          // different groups, which run one after the other.
          maxWorkers: availableParallelism() + 4,
          sequence: { groupOrder: 1 },
          globalSetup: ["test/support/vitest/run-folder.ts"],
          include: ["test/slow/**/*.test.ts"],
          testTimeout: 3_600_000,
          hookTimeout: 600_000,
          expect: { requireAssertions: true, poll },
        },
      },
    ],
  },
});
