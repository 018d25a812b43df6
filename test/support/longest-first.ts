/** Starts the longest-running test files first, so that no worker is left with one of them at the end. */
import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The longest files of the slow project. All other files follow in the order that vitest chooses. */
const LONGEST_SLOW_FILES = [
  "deliveries-kill9",
  "packaged",
  "store-outage",
  "fresh-machine",
  "store-faults",
  "ordinary-user",
  "turns-kill9",
  "changed-bytes",
  "package-write-points",
  "turns-resume",
  "wire-fuzz",
  "harness-kill9",
  "gateway-kill9",
  "backup",
  "console-manage",
  "console",
  "console-observe",
  "plugin-conformance",
  "coding-agents",
  "full-disk",
  "flipped-bytes",
  "mcp-conformance-client",
  "runner-cycles",
  "oci-registry",
  "frozen-gateway",
  "harness-takeover",
  "explorer-page",
  "unpack-mutations",
  "chat-page",
  "readme",
  "mcp-conformance",
  "mcp-servers",
].map((name) => `test/slow/${name}.test.ts`);

/** The longest files of the fast project. */
const LONGEST_FAST_FILES = [
  "packages/cli/test/install/self-describing.test.ts",
  "test/e2e/mcp-install.test.ts",
  "test/e2e/chat-page-controls.test.ts",
  "packages/supply/test/create-plugin-sources.test.ts",
  "test/hostile/egress-sandboxed.test.ts",
  "packages/sdk/test/host/tool-files.test.ts",
  "test/e2e/audit-tampering.test.ts",
  "packages/supply/test/npm-sources.test.ts",
  "test/e2e/turn-once.test.ts",
  "test/e2e/hosted-plugin.test.ts",
  "packages/store/test/postgres.test.ts",
  "test/e2e/shutdown.test.ts",
  "test/e2e/isolation-classes.test.ts",
  "test/e2e/two-gateways.test.ts",
  "packages/supply/test/npm-server.test.ts",
  "packages/supply/test/python-builds.test.ts",
  "test/e2e/home-modes.test.ts",
  "packages/runner/test/module-host/module-host.test.ts",
  "packages/agent/test/loop/fenced.test.ts",
  "packages/api/test/auth/scope-matrix.test.ts",
  "test/e2e/mcp-sign-in.test.ts",
  "test/e2e/tool-files.test.ts",
  "test/e2e/mcp-client.test.ts",
  "packages/supply/test/python-server.test.ts",
  "packages/authoring/test/conformance/defects.test.ts",
  "packages/gateway/test/plugins/plugin-loader.test.ts",
  "packages/runner/test/dialects/contradictory-answers.test.ts",
  "packages/door/test/idempotency/killed.test.ts",
  "packages/runner/test/dialects/mcp/mcp-stdio.test.ts",
  "packages/gateway/test/plugins/plugin-contract.test.ts",
  "packages/cli/test/commands/plugin/authoring.test.ts",
  "examples/java-provider/test/java-provider.test.ts",
  "test/e2e/workspaces.test.ts",
  "test/hostile/boundary.test.ts",
  "packages/runner/test/processes/hostile.test.ts",
  "packages/supply/test/cancelled-import.test.ts",
  "packages/runner/test/sandbox/egress.test.ts",
  "packages/gateway/test/plugins/plugin-module.test.ts",
  "packages/runner/test/sandbox/kept-folders.test.ts",
  "packages/cli/test/commands/gateway/fault.test.ts",
];

const LONGEST = [...LONGEST_SLOW_FILES, ...LONGEST_FAST_FILES];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const at = LONGEST.indexOf(relative(process.cwd(), moduleId));
      return at < 0 ? LONGEST.length : at;
    };
    return (await super.sort(files)).sort((one, other) => place(one) - place(other));
  }
}
