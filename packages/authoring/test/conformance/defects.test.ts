/**
 * Each plugin has exactly one defect: the suite must report the rule that it breaks, and no other. The other defects
 * are in test/slow/plugins/plugin-conformance.test.ts.
 */
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  expectedRules,
  failuresOf,
  findBrokenRules,
  SIDE_DEFECTS,
  VAI_DEFECTS,
} from "./defective-plugins.ts";
import { createPluginFolder, type Program, useSuite } from "./plugin-folder.ts";

const suite = useSuite();

const testDefect = (program: Program, defect: string) => suite.run(createPluginFolder(program, defect));

/** Defects that are detected without waiting for a limit. */
const QUICK_VAI = [
  "does-not-start",
  "other-version",
  "second-hello",
  "counts-characters",
  "too-large",
  "foreign-id",
  "contradicts",
  "wrong-output",
  "event-after-response",
  "crashes",
  "any-export",
  "exits-with-3",
];
const QUICK_SIDE = ["no-manifest", "other-id", "prints-after-response", "any-tool", "exits-with-1"];

verifies(
  "author.test",
  "reports exactly the broken rule of twelve defective vai.rpc.v1 plugins",
  async () => {
    expect(await findBrokenRules(suite.run, "plugin.py", QUICK_VAI)).toEqual(
      expectedRules(VAI_DEFECTS, QUICK_VAI),
    );
  },
);

verifies(
  "author.test",
  "reports exactly the broken rule of five defective rterm.plugin.v1 plugins",
  async () => {
    expect(await findBrokenRules(suite.run, "side.py", QUICK_SIDE)).toEqual(
      expectedRules(SIDE_DEFECTS, QUICK_SIDE),
    );
  },
);

test("reports no failure for the same programs without a defect", async () => {
  for (const program of ["plugin.py", "side.py"] as const) {
    const report = await testDefect(program, "");
    expect(failuresOf(report)).toEqual([]);
    expect(report).toMatchObject({ conforms: true, package_id: "acme/count", failed: 0 });
    // All other rules were checked.
    expect(report.results.filter(({ status }) => status === "skipped").map(({ id }) => id)).toEqual(
      program === "plugin.py" ? ["compactor.retains"] : [],
    );
  }
});

verifies("author.test", "shows the frame that broke the rule, the frames before it and the fix", async () => {
  const [broken] = failuresOf(await testDefect("plugin.py", "answers-twice"));
  expect(broken!.failure).toMatchObject({
    export_id: "count",
    message: expect.stringMatching(/^The request req_\d+ was answered a second time\.$/),
    fix: expect.stringContaining("one response for each request"),
  });
  expect(JSON.parse(broken!.failure!.frame!)).toMatchObject({ type: "response", ok: true });
  const { transcript } = broken!.failure!;
  expect(transcript[0]).toMatchObject({ from: "host", text: expect.stringContaining('"type":"hello"') });
  // Frames that follow the broken one are not shown, however many arrive before the check ends.
  expect(transcript.at(-1)).toMatchObject({ from: "plugin", text: broken!.failure!.frame });
});

test("shows printed text instead of a frame, and never a secret", async () => {
  const [printed] = failuresOf(await testDefect("plugin.py", "prints"));
  expect(printed!.failure!.frame).toContain("counting words");
  const [logged] = failuresOf(await testDefect("plugin.py", "logs-secret"));
  expect(logged!.failure!.frame).toBe("using [redacted]");
  expect(JSON.stringify(logged)).not.toContain("made-up-");
});
