/** A real runner for the fixture programs: real processes, the real clock, its own scratch folder. */
import { mkdtempSync, readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@backplane/contract";
import type { Runner, RunOutcome } from "@backplane/ports";
import { realTimeClock } from "@backplane/test-kit/real-time-clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, onTestFinished } from "vitest";
import { isAlive, processesWith } from "../../../../test/support/gateway/processes.ts";
import { createRunner, type RunnerOptions } from "../../src/index.ts";
import { filesAt } from "./files-at.ts";
import { FIXTURES, type RequestChange, requestOf } from "./request.ts";

export { isAlive, processesWith };

export interface TestRunner {
  runner: Runner;
  scratch_root: string;
  logs: string[];
  /** A value in the environment of every process of this test runner. */
  mark: string;
  /** Events of the last `run`. */
  events: (JsonObject & { type: string })[];
  run(change: RequestChange): Promise<RunOutcome>;
}

export function createTestRunner(options: Partial<RunnerOptions> & { folder?: string } = {}): TestRunner {
  const { folder, ...rest } = options;
  const scratch_root = options.scratch_root ?? mkdtempSync(join(tmpdir(), "backplane-runner-"));
  const logs: string[] = [];
  const mark = `runner-test-${process.pid}-${Math.random().toString(36).slice(2)}`;
  const runner = createRunner({
    files: filesAt(folder ?? FIXTURES),
    clock: realTimeClock,
    scratch_root,
    host: { name: "backplane", version: "0.1.0" },
    log: createTestLogger((level, message, fields) =>
      logs.push(`${level} ${message} ${JSON.stringify(fields)}`),
    ),
    ...rest,
    // Processes that are prewarmed for calls that a test never makes would count as left behind.
    limits: { prewarmed: 0, ...rest.limits },
  });
  const test_runner: TestRunner = {
    runner,
    scratch_root,
    logs,
    mark,
    events: [],
    run: (change) => {
      test_runner.events = [];
      const { events } = test_runner;
      return runner.run(requestOf({ ...change, env: { MARK: mark, ...change.env } }), {
        event: (event) => events.push(event),
      });
    },
  };
  onTestFinished(async () => {
    await runner.close(200);
    // After every test: no process and no scratch folder is left behind.
    await until(() => processesWith(mark).length === 0);
    // A busy machine may reap a process later than the runner waits for it on close.
    const left = () => readdirSync(scratch_root).filter((name) => /^(?:inv|proc)_/.test(name));
    await until(() => left().length === 0).catch(() => {});
    expect(left()).toEqual([]);
    await rm(scratch_root, { recursive: true, force: true });
  });
  return test_runner;
}

export async function until(condition: () => boolean, limit_ms = 60_000): Promise<void> {
  const end = performance.now() + limit_ms;
  while (!condition()) {
    if (performance.now() > end)
      throw new Error(`The condition was still false after ${limit_ms} ms: ${condition.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
