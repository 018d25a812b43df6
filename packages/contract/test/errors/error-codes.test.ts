import {
  BackplaneError,
  codeOf,
  deserializeError,
  diskFault,
  ERROR_CODES,
  serializeError,
  toBackplaneError,
} from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

test("every code has a sentence that describes it, a remedy and an HTTP status", () => {
  for (const [code, spec] of Object.entries(ERROR_CODES)) {
    expect(spec.description, code).toMatch(/^[A-Z].*\.$/);
    expect(spec.remedy.length, code).toBeGreaterThan(10);
    expect(spec.http, code).toBeGreaterThanOrEqual(200);
    expect(spec.http, code).toBeLessThan(600);
  }
});

test("only the listed refusals are retryable", () => {
  const retryable = Object.entries(ERROR_CODES).filter(
    ([, spec]) => spec.family === "refusal" && spec.retryable,
  );
  expect(retryable.map(([code]) => code).toSorted()).toEqual([
    "approval.expired",
    "daemon.unreachable",
    "egress.unreachable",
    "gateway_starting",
    "gateway_stopping",
    "idempotency.in_progress",
    "invocation.queue_full",
    "llm.budget_exceeded",
    "llm.failed",
    "registry.unreachable",
    "request.overloaded",
    "run.taken_over",
    "session.busy",
  ]);
});

test("recognizes an error from another bundle by its code", () => {
  const foreign = Object.assign(new Error("x"), { code: "policy.denied" });
  expect(codeOf(foreign)).toBe("policy.denied");
  expect(codeOf(Object.assign(new Error("x"), { code: "ENOENT" }))).toBeUndefined();
  expect(codeOf("policy.denied")).toBeUndefined();
});

test("wraps an unknown error as internal without exposing its message, and returns a known error unchanged", () => {
  const wrapped = toBackplaneError(new Error("password=hunter2 at /etc/x"));
  expect(wrapped.code).toBe("internal");
  expect(wrapped.message).not.toContain("hunter2");
  const known = new BackplaneError("timeout", "too slow");
  expect(toBackplaneError(known)).toBe(known);
});

verifies("fault.disk", "reports a full, failing or read-only disk with its location and the remedy", () => {
  const diskError = (code: string) =>
    Object.assign(new Error(`${code}: write '/home/acme/x'`), { code, syscall: "write" });
  const problems = {
    ENOSPC: "There is no space left on the disk of the gateway.",
    EDQUOT: "The disk quota of the gateway is used up.",
    EIO: "The disk of the gateway failed with an I/O error.",
    EROFS: "The disk of the gateway is read-only.",
  };
  for (const [code, problem] of Object.entries(problems)) {
    const error = toBackplaneError(diskError(code));
    expect([error.code, error.message, error.retryable]).toEqual(["store.unavailable", problem, true]);
    expect(error.fix).toMatch(/, then try again\.$/);
    expect(error.cause).toMatchObject({ code });
    expect(diskFault(diskError(code), "store.db")?.message).toBe(problem.replace("the gateway", "store.db"));
  }
  expect(toBackplaneError(diskError("Unknown system error -122")).message).toBe(problems.EDQUOT);
  for (const code of ["ENOENT", "Unknown system error -1222"])
    expect(toBackplaneError(diskError(code)).code).toBe("internal");
});

verifies(
  "fault.disk",
  "does not report a disk error in a plugin's process as a failure of the gateway's disk",
  () => {
    const thrown = Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
    const real = Object.assign(thrown, { syscall: "write" });
    const received = deserializeError(serializeError(real, "without trace"));
    expect(received).toMatchObject({ code: "ENOSPC" });
    for (const error of [
      received,
      new Error("ENOSPC"),
      "ENOSPC",
      null,
      undefined,
      { code: "toString", syscall: "x" },
    ])
      expect(toBackplaneError(error).code).toBe("internal");
  },
);
