import { expect, test } from "vitest";
import { determineExitCause, type Evidence } from "../../src/sandbox/exit-cause.ts";
import { DEFAULT_SANDBOX_LIMITS } from "../../src/sandbox/limits.ts";

const CLEAN_EXIT = { code: 0, signal: 0, cpu_ms: 10, peak_bytes: 1, scratch_full: false, kept_full: false };
const SIGNAL = { KILL: 9, SEGV: 11, XCPU: 24, XFSZ: 25 };

function exitCause(overrides: Partial<Evidence>) {
  return determineExitCause(
    {
      report: CLEAN_EXIT,
      exit: { code: 0, signal: null },
      counted: { oom: 0, pids: 0 },
      cpu_bounded: true,
      timed_out: false,
      ...overrides,
    },
    DEFAULT_SANDBOX_LIMITS,
  );
}

const killed = (signal: number, overrides: object = {}) => ({
  ...CLEAN_EXIT,
  code: null,
  signal,
  ...overrides,
});

test.each<[string, Partial<Evidence>, string]>([
  ["a clean exit", {}, "exit"],
  ["a clean exit after a rejected fork", { counted: { oom: 0, pids: 3 } }, "exit"],
  ["a clean exit with full scratch", { report: { ...CLEAN_EXIT, scratch_full: true } }, "exit"],
  ["an exit code other than 0", { report: { ...CLEAN_EXIT, code: 3 } }, "exit"],
  ["a segmentation fault", { report: killed(SIGNAL.SEGV) }, "signal"],
  ["out of memory", { report: killed(SIGNAL.KILL), counted: { oom: 1, pids: 0 } }, "oom"],
  ["out of memory, with PID 1 killed as well", { report: null, counted: { oom: 1, pids: 0 } }, "oom"],
  ["rejected forks", { report: { ...CLEAN_EXIT, code: 1 }, counted: { oom: 0, pids: 9 } }, "pids"],
  [
    "rejected forks until the deadline",
    { report: null, exit: { code: 137, signal: null }, counted: { oom: 0, pids: 9 }, timed_out: true },
    "pids",
  ],
  ["CPU time at the soft limit", { report: killed(SIGNAL.XCPU) }, "cpu"],
  ["CPU time at the hard limit", { report: killed(SIGNAL.KILL, { cpu_ms: 600_000 }) }, "cpu"],
  [
    "a kill after much CPU time in a pool",
    { report: killed(SIGNAL.KILL, { cpu_ms: 600_000 }), cpu_bounded: false },
    "signal",
  ],
  ["a file over the size limit", { report: killed(SIGNAL.XFSZ) }, "disk"],
  ["a persistent folder over its limit", { report: killed(SIGNAL.KILL, { kept_full: true }) }, "disk"],
  ["full scratch", { report: { ...CLEAN_EXIT, code: 1, scratch_full: true } }, "disk"],
  ["the deadline", { report: null, exit: { code: 137, signal: null }, timed_out: true }, "timeout"],
])("reports the exit cause: %s", (_, evidence, expected) => {
  const { cause, message } = exitCause(evidence);
  expect(cause).toBe(expected);
  expect(message).toMatch(/^Its? .+\.$/);
});

test("reports the name of a signal, or its number if it has no name", () => {
  expect(exitCause({ report: killed(SIGNAL.SEGV) })).toMatchObject({ signal: "SIGSEGV", code: null });
  expect(exitCause({ report: killed(63) }).message).toContain("signal 63");
});
