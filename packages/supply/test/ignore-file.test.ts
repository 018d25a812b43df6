import { expect, test } from "vitest";
import { readIgnores } from "../src/pack/ignore-file.ts";

test.each([
  ["*.log", ["a.log", "deep/b.log", ".log"], ["a.logs", "a.log/b"]],
  ["/top.txt", ["top.txt"], ["deep/top.txt"]],
  ["name", ["name", "deep/name"], ["names", "deep/a-name", "name/inside"]],
  ["a/b", ["a/b"], ["x/a/b"]],
  ["docs/**/d-?.md", ["docs/d-1.md", "docs/x/y/d-2.md"], ["docs/d-10.md", "docs/xd-1.md", "docs/d-/.md"]],
  ["**/cache", ["cache", "a/cache", "a/b/cache"], ["acache", "a/xcache"]],
  ["src/**", ["src/a", "src/a/b"], ["src", "xsrc/a"]],
  ["a**z", ["az", "a/b/z"], ["a/b/zz/y"]],
  ["a.b", ["a.b"], ["axb"]],
  ["[x]+(y)", ["[x]+(y)"], ["x", "xx(y)"]],
  ["?", ["a", "é", "😀", "d/a"], ["ab"]],
])("%s", (pattern, yes, no) => {
  const ignores = readIgnores(pattern);
  expect(yes.filter((path) => !ignores(path, false))).toEqual([]);
  expect(no.filter((path) => ignores(path, false))).toEqual([]);
});

test("a trailing slash means folders only", () => {
  const ignores = readIgnores("build/");
  expect([ignores("build", true), ignores("x/build", true), ignores("build", false)]).toEqual([
    true,
    true,
    false,
  ]);
});

test("a pattern made of stars costs no more than its length", () => {
  const ignores = readIgnores(`${"**/a/".repeat(40)}x\n${"*a".repeat(60)}b`);
  const started = performance.now();
  expect(ignores(`${"a/".repeat(300)}b/c`, false)).toBe(false);
  expect(ignores("a".repeat(250), false)).toBe(false);
  // Backtracking would take longer than anyone can wait; usual is a few milliseconds.
  expect(performance.now() - started).toBeLessThan(2_000);
});
