/** Runs the attacks and the tests of the sandbox again as an ordinary user. */
import { spawnSync } from "node:child_process";
import { chownSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";

const NOBODY = 65_534;
const FILES = ["packages/runner/test/sandbox", "test/hostile/"];

interface Report {
  numPassedTests: number;
  testResults: { assertionResults: { title: string; status: string; failureMessages: string[] }[] }[];
}

test.runIf(process.getuid!() === 0)("the sandbox of an ordinary user passes the same tests as root's", () => {
  const folder = mkdtempSync(join(tmpdir(), "backplane-ordinary-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  // The folder belongs to the ordinary user: in a folder that all users can write to, the gateway would refuse its home.
  chownSync(folder, NOBODY, NOBODY);
  const report = join(folder, "report");
  const { stdout, stderr } = spawnSync(
    process.execPath,
    // Without `--configLoader=runner`, vitest would bundle the configuration into a folder of another user.
    [
      "node_modules/vitest/vitest.mjs",
      "run",
      "--project",
      "fast",
      "--maxWorkers=2",
      "--configLoader=runner",
      ...FILES,
    ],
    {
      uid: NOBODY,
      gid: NOBODY,
      env: {
        PATH: "/usr/bin:/bin",
        HOME: folder,
        TMPDIR: folder,
        BACKPLANE_REPORT: relative(resolve("reports"), report),
      },
      encoding: "utf8",
      maxBuffer: 64 * 1024 * 1024,
    },
  );
  const { numPassedTests, testResults } = JSON.parse(readFileSync(`${report}.json`, "utf8")) as Report;
  const failed = testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status === "failed")
    .map(({ title, failureMessages }) => `${title}: ${failureMessages[0]}`);
  expect(failed, `${stdout.slice(-2_000)}${stderr.slice(-2_000)}`).toEqual([]);
  expect(numPassedTests).toBeGreaterThan(170);
});
