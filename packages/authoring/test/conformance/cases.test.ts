/** The author's cases, and the JUnit form of the report. */
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { compareOutcome } from "../../src/conformance/cases.ts";
import { formatJunit } from "../../src/index.ts";
import { createPluginFolder, useSuite } from "./plugin-folder.ts";

const suite = useSuite();

const CASES = [
  { name: "counts", export: "count", input: { text: "one two" }, expect: { output: { words: 2 } } },
  { name: "counts wrongly", export: "count", input: { text: "one two" }, expect: { output: { words: 3 } } },
  { name: "refuses a list", export: "count", input: [], expect: { error: { message: "not an object" } } },
];

verifies("author.test", "runs the author's cases and reports the differences", async () => {
  for (const program of ["plugin.py", "side.py"] as const) {
    const report = await suite.run(createPluginFolder(program, "", { cases: CASES }));
    const cases = report.results.filter(({ id }) => id.startsWith("case:"));
    expect(cases.map(({ id, status }) => `${id} ${status}`)).toEqual([
      "case:counts passed",
      "case:counts wrongly failed",
      "case:refuses a list passed",
    ]);
    expect(cases[1]!.failure).toMatchObject({ message: "count: output.words is 2, expected 3." });
    expect(report).toMatchObject({ conforms: false, failed: 1 });
    const xml = formatJunit(report);
    expect(xml).toContain(`tests="${report.results.length}" failures="1" errors="0"`);
    expect(xml).toContain(
      '<failure type="case:counts wrongly" message="count: output.words is 2, expected 3.">',
    );
  }
});

verifies(
  "author.test",
  "reports a case once if its process also breaks a rule after the result",
  async () => {
    const cases = CASES.slice(0, 2).map((each) => ({ ...each, secrets: { api_key: "made-up-and-long" } }));
    const report = await suite.run(createPluginFolder("side.py", "logs-secret", { cases }));
    const results = report.results.filter(({ id }) => /^case:|^secrets/.test(id));
    expect(results.map(({ id, status }) => `${id} ${status}`)).toEqual([
      "secrets.hidden failed",
      "case:counts passed",
      "case:counts wrongly failed",
    ]);
    expect(JSON.stringify(report)).not.toContain("made-up-and-long");
  },
);

test("rejects a case with an unknown export or an unknown field", async () => {
  const folder = (value: unknown) => createPluginFolder("plugin.py", "", { cases: value });
  const expectations: [unknown, string][] = [
    [{ name: "a", export: "other", expect: {} }, "tests/cases.json[0]: export is not one of count."],
    [
      { name: "a", export: "count", expected: {} },
      "tests/cases.json[0]: expected is not one of name, export",
    ],
    [[{ name: "a", export: "count", expect: { words: 1 } }], "expect.words is not one of status, output"],
  ];
  for (const [value, message] of expectations)
    await expect(suite.run(folder(value))).rejects.toThrow(message);
});

test("compares statuses, nested output, texts and errors", () => {
  const succeeded = { status: "succeeded", output: { a: [{ b: 1, c: 2 }] }, text: "one two", error: null };
  const failed = {
    status: "failed",
    output: null,
    text: "",
    error: { code: "busy", message: "The API is busy." },
  };
  expect(compareOutcome({ output: { a: [{ b: 1 }] } }, succeeded, false)).toBeNull();
  expect(compareOutcome({ output: { a: [] } }, succeeded, false)).toContain("output.a is");
  expect(compareOutcome({ output: { a: [{ b: 2 }] } }, succeeded, false)).toBe(
    "output.a[0].b is 1, expected 2",
  );
  expect(compareOutcome({ text: "two" }, succeeded, false)).toBeNull();
  expect(compareOutcome({ text: "three" }, succeeded, false)).toContain('expected one with "three"');
  expect(compareOutcome({}, succeeded, true)).toBe("the status is succeeded, expected ack");
  expect(compareOutcome({}, failed, false)).toBe(
    "the status is failed, expected succeeded: The API is busy.",
  );
  expect(compareOutcome({ error: { code: "busy", message: "busy" } }, failed, false)).toBeNull();
  expect(compareOutcome({ error: { code: "gone" } }, failed, false)).toContain('expected "gone"');
});

test("escapes characters that XML does not allow in the JUnit report", () => {
  const failure = {
    message: 'a < b & "c" \u0000',
    export_id: null,
    frame: null,
    fix: "fix",
    transcript: [],
    stderr: "]]>",
  };
  const xml = formatJunit({
    package_id: "acme/count",
    version: "0.1.0",
    digest: "",
    protocol: "vai.rpc.v1",
    conforms: false,
    passed: 0,
    failed: 1,
    skipped: 0,
    results: [{ id: "case:x", rule: "r", status: "failed", failure }],
    duration_ms: 1_500,
  });
  expect(xml).toContain('message="a &lt; b &amp; &quot;c&quot; \ufffd"');
  expect(xml).toContain("stderr: ]]&gt;");
  expect(xml).toContain('time="1.500"');
});
