import { BackplaneError, codeOf, ERROR_CODES, toBackplaneError } from "@backplane/contract";
import { expect, test } from "vitest";

test("every code says what happened and what to do, as sentences", () => {
  for (const [code, spec] of Object.entries(ERROR_CODES)) {
    expect(spec.what, code).toMatch(/^[A-Z].*\.$/);
    expect(spec.remedy.length, code).toBeGreaterThan(10);
    expect(spec.http, code).toBeGreaterThanOrEqual(200);
    expect(spec.http, code).toBeLessThan(600);
  }
});

test("a refusal that may pass is a 4xx or 5xx that clients retry", () => {
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
    "llm.failed",
    "request.overloaded",
    "run.taken_over",
    "session.busy",
  ]);
});

test("an error is known by its code, also from another bundle", () => {
  const foreign = Object.assign(new Error("x"), { code: "policy.denied" });
  expect(codeOf(foreign)).toBe("policy.denied");
  expect(codeOf(Object.assign(new Error("x"), { code: "ENOENT" }))).toBeUndefined();
  expect(codeOf("policy.denied")).toBeUndefined();
});

test("an unknown error becomes internal and says nothing of itself", () => {
  const wrapped = toBackplaneError(new Error("password=hunter2 at /etc/x"));
  expect(wrapped.code).toBe("internal");
  expect(wrapped.message).not.toContain("hunter2");
  const own = new BackplaneError("timeout", "too slow");
  expect(toBackplaneError(own)).toBe(own);
});
