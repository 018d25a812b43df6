/** Starts the files that take longest first, so that no worker is left with one of them at the end. */
import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Slow suites by their time, the longest first. Others follow in the order that vitest chooses. */
const LONGEST = [
  "store-outage",
  "packaged",
  "turns-kill9",
  "mcp-servers",
  "wire-fuzz",
  "turns-resume",
  "frozen-gateway",
  "readme",
  "changed-bytes",
  "mcp-conformance-client",
  "unpack-mutations",
  "package-write-points",
  "store-faults",
  "backup",
].map((name) => `test/slow/${name}.test.ts`);

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const at = LONGEST.indexOf(relative(process.cwd(), moduleId));
      return at < 0 ? LONGEST.length : at;
    };
    return (await super.sort(files)).sort((one, other) => place(one) - place(other));
  }
}
