import { BackplaneError, codeOf, ERROR_CODES, toBackplaneError } from "@backplane/contract";
import { expect, test } from "vitest";

test("every code has a sentence for what happened, a remedy and an HTTP status", () => {
  for (const [code, spec] of Object.entries(ERROR_CODES)) {
    expect(spec.what, code).toMatch(/^[A-Z].*\.$/);
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

test("recognizes an error of another bundle by its code", () => {
  const foreign = Object.assign(new Error("x"), { code: "policy.denied" });
  expect(codeOf(foreign)).toBe("policy.denied");
  expect(codeOf(Object.assign(new Error("x"), { code: "ENOENT" }))).toBeUndefined();
  expect(codeOf("policy.denied")).toBeUndefined();
});

test("wraps an unknown error as internal without exposing its message", () => {
  const wrapped = toBackplaneError(new Error("password=hunter2 at /etc/x"));
  expect(wrapped.code).toBe("internal");
  expect(wrapped.message).not.toContain("hunter2");
  const own = new BackplaneError("timeout", "too slow");
  expect(toBackplaneError(own)).toBe(own);
});
