/** Starts the files that take longest first, so that no worker is left with one of them at the end. */
import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The suites of each project by their time, the longest first. Others follow in the order that vitest chooses. */
const SLOW = [
  "deliveries-kill9",
  "packaged",
  "fresh-machine",
  "store-faults",
  "store-outage",
  "turns-kill9",
  "unpack-mutations",
  "ordinary-user",
  "harness-kill9",
  "wire-fuzz",
  "backup",
  "changed-bytes",
  "mcp-conformance-client",
  "mcp-servers",
  "turns-resume",
  "readme",
  "package-write-points",
  "gateway-kill9",
  "flipped-bytes",
  "runner-cycles",
  "frozen-gateway",
  "harness-takeover",
].map((name) => `test/slow/${name}.test.ts`);

const FAST = [
  "test/e2e/audit-tampering.test.ts",
  "test/e2e/chat-page-controls.test.ts",
  "test/e2e/instrument-discovery.test.ts",
  "packages/cli/test/install/self-describing.test.ts",
  "packages/supply/test/create-plugin-sources.test.ts",
  "test/e2e/workspaces.test.ts",
  "test/e2e/mcp-sign-in.test.ts",
  "test/hostile/egress-sandboxed.test.ts",
  "packages/sdk/test/host/tool-files.test.ts",
  "packages/supply/test/npm-sources.test.ts",
  "test/e2e/web-api.test.ts",
  "packages/runner/test/dialects/mcp/mcp-stdio.test.ts",
  "packages/runner/test/module-host/module-host.test.ts",
  "packages/agent/test/loop/fenced.test.ts",
  "packages/cli/test/commands/gateway/daemon.test.ts",
  "packages/cli/test/commands/gateway/doctor.test.ts",
  "packages/sdk/test/serve.test.ts",
  "test/e2e/mcp-install.test.ts",
  "packages/store/test/postgres.test.ts",
  "packages/api/test/auth/scope-matrix.test.ts",
  "packages/door/test/idempotency/killed.test.ts",
  "examples/java-provider/test/java-provider.test.ts",
  "test/hostile/secrets.test.ts",
  "test/hostile/system-calls.test.ts",
  "test/e2e/hosted-plugin.test.ts",
  "test/e2e/shutdown.test.ts",
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
