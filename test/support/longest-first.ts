/** Starts the files that take longest first, so that no worker is left with one of them at the end. */
import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The suites of each project by their time, the longest first. Others follow in the order that vitest chooses. */
const SLOW = [
  "deliveries-kill9",
  "packaged",
  "ordinary-user",
  "fresh-machine",
  "store-faults",
  "store-outage",
  "turns-resume",
  "package-write-points",
  "turns-kill9",
  "changed-bytes",
  "backup",
  "flipped-bytes",
  "coding-agents",
  "gateway-kill9",
  "harness-kill9",
  "wire-fuzz",
  "full-disk",
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

const FAST = [
  "test/e2e/audit-tampering.test.ts",
  "packages/cli/test/install/self-describing.test.ts",
  "test/e2e/isolation-classes.test.ts",
  "test/hostile/egress-sandboxed.test.ts",
  "packages/supply/test/npm-server.test.ts",
  "test/e2e/chat-page-controls.test.ts",
  "packages/sdk/test/host/tool-files.test.ts",
  "packages/agent/test/loop/fenced.test.ts",
  "test/e2e/turn-once.test.ts",
  "packages/runner/test/module-host/module-host.test.ts",
  "test/e2e/mcp-install.test.ts",
  "packages/supply/test/create-plugin-sources.test.ts",
  "test/e2e/two-gateways.test.ts",
  "packages/gateway/test/plugins/plugin-module.test.ts",
  "test/hostile/boundary.test.ts",
  "test/e2e/hosted-plugin.test.ts",
  "packages/supply/test/npm-sources.test.ts",
  "packages/runner/test/sandbox/kept-folders.test.ts",
  "test/e2e/mcp-client.test.ts",
  "test/e2e/shutdown.test.ts",
  "packages/runner/test/dialects/mcp/mcp-stdio.test.ts",
  "packages/runner/test/processes/hostile.test.ts",
  "packages/cli/test/commands/gateway/fault.test.ts",
  "test/e2e/mcp-sign-in.test.ts",
  "packages/supply/test/cancelled-import.test.ts",
  "packages/runner/test/sandbox/egress.test.ts",
];

const LONGEST = [...SLOW, ...FAST];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const at = LONGEST.indexOf(relative(process.cwd(), moduleId));
      return at < 0 ? LONGEST.length : at;
    };
    return (await super.sort(files)).sort((one, other) => place(one) - place(other));
  }
}
