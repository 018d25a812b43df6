import { expect, test } from "vitest";
import { causeOfDeath, type Evidence } from "../../src/sandbox/cause-of-death.ts";
import { DEFAULT_SANDBOX_LIMITS } from "../../src/sandbox/limits.ts";

const QUIET = { code: 0, signal: 0, cpu_ms: 10, peak_bytes: 1, scratch_full: false, kept_full: false };
const SIG = { KILL: 9, SEGV: 11, XCPU: 24, XFSZ: 25 };

function name(change: Partial<Evidence>) {
  return causeOfDeath(
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
  ["a clean end", {}, "exit"],
  ["a clean end after a refused fork", { counted: { oom: 0, pids: 3 } }, "exit"],
  ["a clean end with a full scratch", { report: { ...QUIET, scratch_full: true } }, "exit"],
  ["its own exit code", { report: { ...QUIET, code: 3 } }, "exit"],
  ["a crash", { report: killed(SIG.SEGV) }, "signal"],
  ["no memory left", { report: killed(SIG.KILL), counted: { oom: 1, pids: 0 } }, "oom"],
  ["no memory left, and PID 1 gone with it", { report: null, counted: { oom: 1, pids: 0 } }, "oom"],
  ["forks refused", { report: { ...QUIET, code: 1 }, counted: { oom: 0, pids: 9 } }, "pids"],
  [
    "forks refused until its time was over",
    { report: null, exit: { code: 137, signal: null }, counted: { oom: 0, pids: 9 }, timed_out: true },
    "pids",
  ],
  ["CPU time at the soft bound", { report: killed(SIG.XCPU) }, "cpu"],
  ["CPU time at the hard bound", { report: killed(SIG.KILL, { cpu_ms: 600_000 }) }, "cpu"],
  [
    "a kill after much work in a pool",
    { report: killed(SIG.KILL, { cpu_ms: 600_000 }), cpu_bounded: false },
    "signal",
  ],
  ["a file that is too long", { report: killed(SIG.XFSZ) }, "disk"],
  ["a kept folder with too much in it", { report: killed(SIG.KILL, { kept_full: true }) }, "disk"],
  ["a full scratch", { report: { ...QUIET, code: 1, scratch_full: true } }, "disk"],
  ["the deadline", { report: null, exit: { code: 137, signal: null }, timed_out: true }, "timeout"],
])("%s", (_, evidence, cause) => {
  const death = name(evidence);
  expect(death.cause).toBe(cause);
  expect(death.message).toMatch(/^It(s time)? .+\.$/);
});

test("signals have names", () => {
  expect(name({ report: killed(SIG.SEGV) })).toMatchObject({ signal: "SIGSEGV", code: null });
  expect(name({ report: killed(63) }).message).toContain("signal 63");
});
