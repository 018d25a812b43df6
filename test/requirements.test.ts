import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { citedIds, findProblems, requirementIds } from "../scripts/requirements.ts";

test("reads the bold ids at the start of each item, including several on one line", () => {
  expect(requirementIds("- **a.b** · **a.c** — text **not.this**\n**x.y** — no\n- **d.e** ⚑ — t")).toEqual([
    "a.b",
    "a.c",
    "d.e",
  ]);
  expect(requirementIds(readFileSync("spec/requirements.md", "utf8")).length).toBeGreaterThanOrEqual(188);
});

test("counts only tests that ran and passed", () => {
  const result = (status: string, id: string) => ({ status, meta: { verifies: [id] } });
  const report = {
    testResults: [
      { assertionResults: [result("passed", "a.b"), result("failed", "a.c"), result("skipped", "a.d")] },
    ],
  };
  expect([...citedIds(report)]).toEqual(["a.b"]);
});

test("reports ids that are uncited, pending although cited, or unknown", () => {
  const reported = findProblems({
    required: ["a.uncited", "a.pending", "a.done"],
    pending: ["a.pending", "a.gone"],
    cited: new Set(["a.done", "a.pending", "a.unknown"]),
  });
  expect(reported.map((line) => line.split(":")[0])).toEqual([
    "a.uncited",
    "a.pending",
    "a.gone",
    "a.unknown",
  ]);
  expect(findProblems({ required: ["a.b"], pending: [], cited: new Set(["a.b"]) })).toEqual([]);
});
