/** The test runner with the sandbox enabled, for the same fixture programs. */
import type { RunnerOptions } from "../../src/index.ts";
import { createTestRunner, type TestRunner } from "./runner.ts";
import { CACHE } from "./sandbox.ts";

export function createConfinedTestRunner(
  options: Partial<RunnerOptions> & { folder?: string; sandbox?: RunnerOptions["sandbox"] } = {},
): TestRunner {
  return createTestRunner({ ...options, sandbox: { cache_dir: CACHE, ...options.sandbox } });
}
