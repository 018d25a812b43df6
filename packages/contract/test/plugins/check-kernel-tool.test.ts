import { expect, test } from "vitest";
import { findKernelToolProblem } from "../../src/plugins/check-kernel-plugin.ts";

const tool = { name: "send", description: "Sends.", parameters: { type: "object" } };

test("accepts a tool with all of its fields", () => {
  expect(findKernelToolProblem(tool)).toBeNull();
  const effect_classes = ["read_only", "idempotent_write", "non_idempotent_write", "unknown"];
  for (const effect_class of effect_classes) {
    const flags = { requires_approval: false, recoverable: true, deferred: true };
    const fields = { effect_class, risk: "high", category: "mail", timeout_ms: 86_400_000, ...flags };
    expect(findKernelToolProblem({ ...tool, ...fields })).toBeNull();
  }
});

test.each([
  [{ effect_class: "readonly" }, /effect_class "readonly" of tool send is not one of read_only, idempotent_/],
  [{ effect_class: "" }, /is not one of read_only, idempotent_write, non_idempotent_write, unknown$/],
  [{ effect_class: ["read_only"] }, /is not one of read_only/],
  [{ effect_class: null }, /is not one of read_only/],
  [{ effect_class: "toString" }, /is not one of read_only/],
  [{ risk: "none" }, /^the risk "none" of tool send is not one of low, medium, high/],
  [{ category: "" }, /^the category of tool send is not a string of 1 to 64 characters$/],
  [{ category: "x".repeat(65) }, /^the category/],
  [{ category: 7 }, /^the category/],
  [{ timeout_ms: "500" }, /^timeout_ms of tool send is not a positive number$/],
  [{ timeout_ms: Number.POSITIVE_INFINITY }, /^timeout_ms/],
  [{ timeout_ms: Number.NaN }, /^timeout_ms/],
  [{ timeout_ms: 0 }, /^timeout_ms/],
  [{ requires_approval: "yes" }, /^requires_approval of tool send is neither true nor false$/],
  [{ recoverable: 1 }, /^recoverable/],
  [{ deferred: "no" }, /^deferred/],
  [{ parameters: { type: "string" } }, /^the parameters of tool send are not a JSON Schema of an object$/],
  [{ parameters: [] }, /^the parameters/],
  [{ parameters: undefined }, /^the parameters/],
  [{ description: null }, /^tool send has no description$/],
  [{ name: "a b" }, /^"a b" is not a valid tool name: use 1 to 64 letters, digits, _ and -$/],
  [{ name: 1 }, /is not a valid tool name/],
])("rejects %j with the reason", (fields, problem) => {
  expect(findKernelToolProblem({ ...tool, ...fields })).toMatch(problem);
});

test("rejects a tool that is not an object", () => {
  expect(findKernelToolProblem(null)).toBe("the tool is not an object");
});
