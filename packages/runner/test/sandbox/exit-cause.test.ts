import { expect, test } from "vitest";
import { type Evidence, exitCauseOf } from "../../src/sandbox/exit-cause.ts";
import { DEFAULT_SANDBOX_LIMITS } from "../../src/sandbox/limits.ts";

const QUIET = { code: 0, signal: 0, cpu_ms: 10, peak_bytes: 1, scratch_full: false, kept_full: false };
const SIG = { KILL: 9, SEGV: 11, XCPU: 24, XFSZ: 25 };

function name(change: Partial<Evidence>) {
  return exitCauseOf(
    {
      report: QUIET,
      exit: { code: 0, signal: null },
      counted: { oom: 0, pids: 0 },
      cpu_bounded: true,
      timed_out: false,
      ...change,
    },
    DEFAULT_SANDBOX_LIMITS,
  );
}

const killed = (signal: number, change: object = {}) => ({ ...QUIET, code: null, signal, ...change });

test.each<[string, Partial<Evidence>, string]>([
  ["a clean exit", {}, "exit"],
  ["a clean exit after a rejected fork", { counted: { oom: 0, pids: 3 } }, "exit"],
  ["a clean exit with full scratch", { report: { ...QUIET, scratch_full: true } }, "exit"],
  ["its own exit code", { report: { ...QUIET, code: 3 } }, "exit"],
  ["a crash", { report: killed(SIG.SEGV) }, "signal"],
  ["out of memory", { report: killed(SIG.KILL), counted: { oom: 1, pids: 0 } }, "oom"],
  ["out of memory, with PID 1 killed as well", { report: null, counted: { oom: 1, pids: 0 } }, "oom"],
  ["rejected forks", { report: { ...QUIET, code: 1 }, counted: { oom: 0, pids: 9 } }, "pids"],
  [
    "rejected forks until the deadline",
    { report: null, exit: { code: 137, signal: null }, counted: { oom: 0, pids: 9 }, timed_out: true },
    "pids",
  ],
  ["CPU time at the soft limit", { report: killed(SIG.XCPU) }, "cpu"],
  ["CPU time at the hard limit", { report: killed(SIG.KILL, { cpu_ms: 600_000 }) }, "cpu"],
  [
    "a kill after much CPU time in a pool",
    { report: killed(SIG.KILL, { cpu_ms: 600_000 }), cpu_bounded: false },
    "signal",
  ],
  ["a file over the size limit", { report: killed(SIG.XFSZ) }, "disk"],
  ["a kept folder over its limit", { report: killed(SIG.KILL, { kept_full: true }) }, "disk"],
  ["full scratch", { report: { ...QUIET, code: 1, scratch_full: true } }, "disk"],
  ["the deadline", { report: null, exit: { code: 137, signal: null }, timed_out: true }, "timeout"],
])("%s", (_, evidence, cause) => {
  const exitCause = name(evidence);
  expect(exitCause.cause).toBe(cause);
  expect(exitCause.message).toMatch(/^Its? .+\.$/);
});

test("names signals", () => {
  expect(name({ report: killed(SIG.SEGV) })).toMatchObject({ signal: "SIGSEGV", code: null });
  expect(name({ report: killed(63) }).message).toContain("signal 63");
});
