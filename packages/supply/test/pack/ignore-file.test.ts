import { expect, test } from "vitest";
import { createIgnoreCheck } from "../../src/pack/ignore-file.ts";

test.each([
  ["*.log", ["a.log", "deep/b.log", ".log", "a.log/b"], ["a.logs"]],
  ["/top.txt", ["top.txt"], ["deep/top.txt"]],
  ["name", ["name", "deep/name", "name/inside"], ["names", "deep/a-name"]],
  ["a/b", ["a/b"], ["x/a/b"]],
  ["docs/**/d-?.md", ["docs/d-1.md", "docs/x/y/d-2.md"], ["docs/d-10.md", "docs/xd-1.md", "docs/d-/.md"]],
  ["**/cache", ["cache", "a/cache", "a/b/cache"], ["acache", "a/xcache"]],
  ["src/**", ["src/a", "src/a/b"], ["src", "xsrc/a"]],
  ["a.b", ["a.b"], ["axb"]],
  ["?", ["a", "é", "d/a"], ["ab"]],
  // Further syntax of .gitignore.
  ["*.log\n!keep.log", ["a.log"], ["keep.log", "deep/keep.log"]],
  ["a**z", ["az", "abz"], ["a/b/z"]],
  ["[a-c].txt", ["a.txt", "c.txt"], ["d.txt", "[a-c].txt"]],
  ["[!a].txt", ["b.txt"], ["a.txt"]],
  ["\\#notes", ["#notes"], ["notes"]],
  ["\\!important", ["!important"], ["important"]],
  ["name   ", ["name"], ["name   "]],
  ["# name", [], ["name", "# name"]],
  ["Name", ["Name"], ["name"]],
])("ignores the paths that the pattern %j matches", async (pattern, ignored, not_ignored) => {
  const ignores = await createIgnoreCheck(pattern);
  expect(ignored.filter((path) => !ignores(path, false))).toEqual([]);
  expect(not_ignored.filter((path) => ignores(path, false))).toEqual([]);
});

test("ignores only folders when the pattern ends with a slash", async () => {
  const ignores = await createIgnoreCheck("build/");
  expect([ignores("build", true), ignores("x/build", true), ignores("build", false)]).toEqual([
    true,
    true,
    false,
  ]);
});

test("ignores version control and caches regardless of the patterns", async () => {
  const ignores = await createIgnoreCheck("!.git\n!.vaiignore\n!node_modules/.cache");
  expect([".git", "a/.git", "a/node_modules/.cache"].map((path) => ignores(path, true))).toEqual([
    true,
    true,
    true,
  ]);
  expect([ignores(".vaiignore", false), ignores("docs/.vaiignore", false)]).toEqual([true, false]);
});

test.each([
  ["**/a/".repeat(40), /line 1 has more than 2 "\*\*"/],
  ["fine\n\na/**/b/**/c/**", /line 3/],
  ["a\n".repeat(501), /more than 500 patterns/],
])("refuses patterns that could take too long to match", async (text, message) => {
  await expect(createIgnoreCheck(text)).rejects.toMatchObject({
    code: "package.source_invalid",
    message: expect.stringMatching(message) as string,
  });
});

test("matches patterns with many stars within two seconds", async () => {
  const ignores = await createIgnoreCheck(`${"*a".repeat(60)}b\n${"*?".repeat(60)}b\n**/a/**/a/x`);
  const started = performance.now();
  expect(ignores("a".repeat(250), false)).toBe(false);
  expect(ignores(`${"a/".repeat(31)}b`, false)).toBe(false);
  // Exponential backtracking would take longer than a test may run; matching usually takes a few milliseconds.
  expect(performance.now() - started).toBeLessThan(2_000);
});

test("stops when all matches together take too long", async () => {
  const ignores = await createIgnoreCheck("*.log", -1);
  expect(() => ignores("a", false)).toThrow(/takes too long/);
});
