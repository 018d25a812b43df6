/** Runs the tests of one mutant in a copy of the project and reports whether they detect it. */
import { spawn, spawnSync } from "node:child_process";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Mutant } from "./mutant.ts";

export interface Verdict {
  outcome: "killed" | "survived" | "timed out" | "did not run";
  detail: string;
}

export interface Judge {
  judge(mutant: Mutant): Promise<Verdict>;
}

/** The part of Vitest's JSON report that is used here. */
interface Report {
  testResults: {
    message: string;
    assertionResults: { title: string; status: string; failureMessages: string[] }[];
  }[];
}

interface Limits {
  /** The timeout of one `expect.poll`. */
  poll_ms: number;
  /** The timeout of one test. The limit in Vitest's configuration is longer, for a machine under heavy load. */
  test_ms: number;
  /** The timeout of all tests of one mutant. */
  run_ms: number;
}

const LIMITS: Limits = { poll_ms: 15_000, test_ms: 45_000, run_ms: 300_000 };

/** Errors of a changed source that is itself broken, for example by an undefined name. */
const BROKEN_SOURCE = /^(?:ReferenceError|SyntaxError|RolldownError|TransformError)\b/;
const TEST_TIMEOUT = /^(?:Error: )?(?:Test|Hook) timed out in /;

export function createJudge(root: string, limits: Limits = LIMITS): Judge {
  const unchanged = new Map<string, Promise<Verdict>>();

  /** Each selection of tests is run once without a mutant: tests that fail anyway prove nothing. */
  function runUnchanged(mutant: Mutant): Promise<Verdict> {
    const key = JSON.stringify([mutant.tests, mutant.only]);
    // Nothing hangs here, so the limit need not be tight.
    const verdict = unchanged.get(key) ?? runTests(root, mutant, { ...limits, run_ms: limits.run_ms * 10 });
    unchanged.set(key, verdict);
    return verdict;
  }

  return {
    async judge(mutant) {
      const path = join(root, mutant.file);
      const source = readFileSync(path, "utf8");
      if (source.split(mutant.from).length !== 2) {
        return { outcome: "did not run", detail: "the code to change does not occur exactly once" };
      }
      const baseline = await runUnchanged(mutant);
      if (baseline.outcome !== "survived") {
        const detail = `without the mutant the tests do not pass: ${baseline.detail}`;
        return { outcome: "did not run", detail };
      }
      const changed = source.replace(mutant.from, () => mutant.to);
      writeFileSync(path, changed);
      const programs = mutant.file.endsWith(".c") ? rebuildPrograms(root) : null;
      try {
        if (programs?.error !== undefined) return { outcome: "did not run", detail: programs.error };
        const verdict = await runTests(root, mutant, limits);
        if (verdict.outcome === "timed out" && mutant.hangs === true) {
          return { outcome: "killed", detail: verdict.detail };
        }
        return verdict;
      } finally {
        writeFileSync(path, source);
        programs?.restore();
      }
    },
  };
}

/** The tests run the shipped sandbox-init, so a changed source has to be compiled. */
function rebuildPrograms(root: string): { error?: string; restore(): void } {
  const shipped = join(root, "packages/runner/sandbox-init/prebuilt");
  const saved = join(root, "reports/prebuilt");
  cpSync(shipped, saved, { recursive: true });
  const restore = () => cpSync(saved, shipped, { recursive: true });
  const script = join(root, "scripts/build-sandbox-init.ts");
  const { status, stderr } = spawnSync(process.execPath, [script, "--local"], { encoding: "utf8" });
  return status === 0 ? { restore } : { error: stderr.split("\n", 20).join(" "), restore };
}

async function runTests(root: string, { tests, only }: Mutant, limits: Limits): Promise<Verdict> {
  const report_name = "mutant";
  const report = join(root, "reports", `${report_name}.json`);
  rmSync(report, { force: true });
  const filter = only === undefined ? [] : ["-t", only];
  const args = ["run", "--project", "fast", "--maxWorkers=1", "--bail=1"];
  const child = spawn(
    join(root, "node_modules/.bin/vitest"),
    [...args, `--testTimeout=${limits.test_ms}`, ...filter, ...tests],
    {
      cwd: root,
      env: { ...process.env, BACKPLANE_REPORT: report_name, BACKPLANE_POLL_MS: String(limits.poll_ms) },
      stdio: "ignore",
      // The workers of Vitest are in its process group and end with it.
      detached: true,
    },
  );
  const kill = () => void (child.pid !== undefined && process.kill(-child.pid, "SIGKILL"));
  // A separate process group does not receive the terminal's interrupt.
  process.prependOnceListener("exit", kill);
  let has_timed_out = false;
  const limit = setTimeout(() => {
    has_timed_out = true;
    kill();
  }, limits.run_ms);
  const status = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", resolve);
  });
  clearTimeout(limit);
  process.off("exit", kill);
  if (has_timed_out) return { outcome: "timed out", detail: `the tests ran longer than ${limits.run_ms} ms` };
  return classify(status, readReport(report));
}

function readReport(path: string): Report | null {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Report;
  } catch {
    return null;
  }
}

/** Reports `killed` only for a test that ran and failed; any other end of the run proves nothing about the rule. */
function classify(status: number | null, report: Report | null): Verdict {
  if (report === null)
    return { outcome: "did not run", detail: `Vitest ended with ${status} and wrote no report` };
  const results = report.testResults.flatMap(({ assertionResults }) => assertionResults);
  const failed = results.filter((result) => result.status === "failed");
  const broken = failed.find(({ failureMessages }) =>
    failureMessages.some((text) => BROKEN_SOURCE.test(text)),
  );
  if (broken !== undefined) return { outcome: "did not run", detail: firstLine(broken.failureMessages) };
  const timed_out = failed.filter(({ failureMessages }) =>
    failureMessages.every((text) => TEST_TIMEOUT.test(text)),
  );
  const killer = failed.find((result) => !timed_out.includes(result));
  if (killer !== undefined) return { outcome: "killed", detail: killer.title };
  if (timed_out[0] !== undefined) return { outcome: "timed out", detail: timed_out[0].title };
  const message = report.testResults.find((file) => file.message !== "")?.message;
  if (message !== undefined) return { outcome: "did not run", detail: firstLine([message]) };
  if (status !== 0) return { outcome: "did not run", detail: `Vitest ended with ${status}; no test failed` };
  if (!results.some((result) => result.status === "passed")) {
    return { outcome: "did not run", detail: "no test matched" };
  }
  return { outcome: "survived", detail: "" };
}

function firstLine(texts: string[]): string {
  return texts[0]?.split("\n", 1)[0] ?? "";
}
