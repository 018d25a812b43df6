/** `npm run mutate` must not mistake a broken run for a killed mutant. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createJudge, type Judge } from "../../../scripts/mutants/judge.ts";
import type { Mutant } from "../../../scripts/mutants/mutant.ts";
import { selectMutants } from "../../../scripts/mutants/select.ts";

const SOURCE = `export const limit = 3;
export function below(n) {
  while (false) {}
  return n < limit;
}
`;

const TESTS = `import { expect, test } from "vitest";
import { below } from "../src/below.ts";

test("finds a number below the limit", () => {
  expect(below(2)).toBe(true);
});
test("waits forever unless below() is true", async () => {
  if (below(0)) return;
  await new Promise(() => setInterval(() => {}, 1_000));
});
`;

const CONFIG = `export default { test: {
  reporters: [["json", { outputFile: \`reports/\${process.env.BACKPLANE_REPORT}.json\` }]],
  projects: [{ test: { name: "fast", include: ["test/*.test.ts"] } }],
} };
`;

let root: string;
let judge: Judge;

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "backplane-mutate-test-"));
  for (const folder of ["src", "test", "node_modules"]) mkdirSync(join(root, folder));
  for (const name of ["vitest", ".bin"]) {
    symlinkSync(resolve("node_modules", name), join(root, "node_modules", name));
  }
  writeFileSync(join(root, "package.json"), '{ "type": "module" }');
  writeFileSync(join(root, "vitest.config.ts"), CONFIG);
  writeFileSync(join(root, "src/below.ts"), SOURCE);
  writeFileSync(join(root, "test/below.test.ts"), TESTS);
  writeFileSync(
    join(root, "test/red.test.ts"),
    'import { expect, test } from "vitest";\ntest("fails anyway", () => expect(1).toBe(2));\n',
  );
  judge = createJudge(root, { poll_ms: 1_000, test_ms: 2_000, run_ms: 60_000 });
});

afterAll(() => rmSync(root, { recursive: true, force: true }));

function mutant(from: string, to: string, more: Partial<Mutant> = {}): Mutant {
  return { name: "d", file: "src/below.ts", from, to, tests: ["test/below.test.ts"], ...more };
}

test.for<[string, Mutant, string, RegExp]>([
  [
    "is killed by a failed test",
    mutant("n < limit", "n > limit"),
    "killed",
    /^finds a number below the limit$/,
  ],
  ["survives if all tests pass", mutant("n < limit", "n <= limit"), "survived", /^$/],
  ["does not run if it has a syntax error", mutant("n < limit", "n <"), "did not run", /./],
  [
    "does not run if it uses an undefined name",
    mutant("n < limit", "n < most"),
    "did not run",
    /most is not defined/,
  ],
  [
    "does not run if its filter matches no test",
    mutant("n < limit", "n > limit", { only: "no such test" }),
    "did not run",
    /no test matched/,
  ],
  ["does not run if its code is not found", mutant("n <= limit", "n > limit"), "did not run", /exactly once/],
  [
    "does not run if its tests fail even without it",
    mutant("n < limit", "n > limit", { tests: ["test/red.test.ts"] }),
    "did not run",
    /without the mutant.*fails anyway/,
  ],
  [
    "times out if a test reaches its limit",
    mutant("n < limit", "n > limit", { only: "waits forever" }),
    "timed out",
    /waits forever/,
  ],
  [
    "is killed by a test that reaches its limit if it is expected to hang",
    mutant("n < limit", "n > limit", { only: "waits forever", hangs: true }),
    "killed",
    /waits forever/,
  ],
])("a mutant %s", async ([, changed, outcome, detail]) => {
  expect(await judge.judge(changed)).toEqual({ outcome, detail: expect.stringMatching(detail) });
});

test("stops a run that blocks its worker", async () => {
  const short = createJudge(root, { poll_ms: 1_000, test_ms: 2_000, run_ms: 5_000 });
  const blocked = mutant("while (false) {}", "while (true) {}");
  expect(await short.judge(blocked)).toMatchObject({ outcome: "timed out" });
});

test("each selected mutant belongs to exactly one shard", () => {
  const all = ["a: 1", "a: 2", "b: 3", "a: 4"].map((name) => mutant("x", "y", { name }));
  const names = (...argv: string[]) => selectMutants(all, argv).map(({ name }) => name);
  expect(names()).toHaveLength(4);
  expect(names("a:")).toEqual(["a: 1", "a: 2", "a: 4"]);
  expect(names("--shard", "1/2", "a:")).toEqual(["a: 1", "a: 4"]);
  expect(names("a:", "--shard", "2/2")).toEqual(["a: 2"]);
  expect(() => names("--shard", "3/2")).toThrow("--shard must be N/COUNT");
  expect(() => names("--shards", "1/2")).toThrow("Unknown option --shards");
});
