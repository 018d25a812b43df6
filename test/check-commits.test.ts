import { expect, test } from "vitest";
import { subjectProblem } from "../scripts/check-commits.ts";

test.each([
  "fix(api): explain an invalid wait parameter",
  "refactor(store,supply): order the folders",
  "docs: wrap a line",
  "feat(cli)!: drop the old flag",
])("accepts the commit subject %s", (subject) => {
  expect(subjectProblem(subject)).toBeNull();
});

test.each([
  ["Fix the thing", 'not "type(module)'],
  ["fix(api) explain", 'not "type(module)'],
  ["fix(api): Explain an invalid parameter", 'not "type(module)'],
  ["fix(api): explain an invalid parameter.", "period"],
  [`fix(api): ${"x".repeat(63)}`, "73 characters"],
])("refuses the commit subject %s", (subject, problem) => {
  expect(subjectProblem(subject)).toContain(problem);
});
