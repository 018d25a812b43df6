import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { ERROR_CODES, type ErrorCode } from "../../src/errors/error-codes.ts";
import { failureNote, refusalKind, toolFailureOf } from "../../src/plugins/tool-failure.ts";

const failed_call = { status: "failed" as const, result: null, error: null, stderr_tail: null };
const failedWith = (code: string, details = {}) => ({
  ...failed_call,
  error: { code, message: "why", details },
});

verifies("content.errors", "gives an author's error its own kind, whichever way it is reported", () => {
  const returned = toolFailureOf({
    ...failed_call,
    status: "succeeded",
    result: { content: [], is_error: true },
  });
  expect(returned).toEqual({ kind: "failed", code: "plugin_failed", retryable: false });
  expect(toolFailureOf(failedWith("plugin_failed", { plugin_code: "CONNECTION_ERROR" }))).toEqual({
    kind: "failed",
    code: "plugin_failed",
    plugin_code: "CONNECTION_ERROR",
    retryable: false,
  });
  const later = { ...failedWith("plugin_retryable"), status: "retryable_failure" as const };
  expect(toolFailureOf(later)).toMatchObject({ kind: "failed", retryable: true });
  expect(toolFailureOf({ ...failed_call, status: "succeeded", result: { content: [] } })).toBeNull();
});

test.for([
  ["crashed", "crashed"],
  ["timeout", "timeout"],
  ["cancelled", "rejected"],
  ["policy.denied", "rejected"],
  ["input.invalid", "validation"],
  ["malformed_response", "internal"],
])("gives the code %s the kind %s", ([code, kind]) => {
  expect(toolFailureOf(failedWith(code!))?.kind).toBe(kind);
});

const CODES = Object.keys(ERROR_CODES) as ErrorCode[];
const kindOf = (code: string) => toolFailureOf(failedWith(code))?.kind;
const codesOfKind = (kind: string) => CODES.filter((code) => kindOf(code) === kind);

test("gives a refusal the kind internal only if another server failed", () => {
  const internal = codesOfKind("internal");
  // In these, another server failed; the gateway refused nothing.
  expect(internal.filter((code) => ERROR_CODES[code].family === "refusal")).toEqual(
    CODES.filter(
      (code) =>
        ERROR_CODES[code].family === "refusal" &&
        ERROR_CODES[code].http === 502 &&
        !code.endsWith("not_found"),
    ),
  );
  expect(internal).toContain("llm.failed");
  expect(kindOf("code.of.a.later.version")).toBe("internal");
});

test("gives the kinds rejected, not_found and validation only to refusals", () => {
  for (const kind of ["rejected", "not_found", "validation"])
    for (const code of codesOfKind(kind)) expect(ERROR_CODES[code].family, code).toBe("refusal");
  expect(codesOfKind("not_found").filter((code) => !code.endsWith("not_found"))).toEqual([]);
  expect(CODES.filter((code) => code.endsWith("not_found") && kindOf(code) !== "not_found")).toEqual([]);
  expect(codesOfKind("validation").toSorted()).toEqual([
    "input.invalid",
    "request.invalid",
    "request.not_json",
    "request.too_large",
  ]);
});

test.for([
  "authority.",
  "approval.",
  "auth.",
  "policy.",
  "signature.",
  "session.",
  "sign_in.needed",
  "gateway_",
])("gives %s the kind rejected", (family) => {
  const codes = CODES.filter((code) => code.startsWith(family) && !code.endsWith("not_found"));
  expect(codes).not.toEqual([]);
  expect(codes.filter((code) => kindOf(code) !== "rejected")).toEqual([]);
});

test("gives a refusal before the tool runs the same kind in tool.error as in the failure", () => {
  const revoked = CODES.filter((code) => code.startsWith("authority."));
  expect(revoked.map(refusalKind)).toEqual(revoked.map(() => "rejected"));
  for (const code of CODES)
    if (refusalKind(code) !== null) expect(kindOf(code), code).toBe(refusalKind(code));
});

verifies("content.errors", "bounds the stderr excerpt and removes control characters", () => {
  const failure = toolFailureOf({
    ...failedWith("plugin_failed"),
    stderr_tail: `${"x".repeat(9_000)}\u001b[31mlast line\n`,
  });
  expect(failure!.stderr!.length).toBeLessThanOrEqual(2_001);
  expect(failure!.stderr).toMatch(/^…x+.*last line$/);
  expect(failure!.stderr).not.toContain("\u001b");
  expect(toolFailureOf({ ...failedWith("plugin_failed"), stderr_tail: "\n" })).not.toHaveProperty("stderr");
});

test("gives the model the codes, whether to retry, and the last lines of stderr", () => {
  const failure = { kind: "failed" as const, code: "plugin_failed", retryable: true };
  expect(failureNote(failure)).toBe("[error: plugin_failed. A retry may succeed.]");
  expect(failureNote({ ...failure, retryable: false })).toBe("");
  expect(failureNote({ ...failure, plugin_code: "E_CONN", retryable: false, stderr: "refused" })).toBe(
    "[error: plugin_failed (E_CONN).]\n[stderr]\nrefused",
  );
});
