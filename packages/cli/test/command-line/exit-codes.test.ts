import { ERROR_CODES, type ErrorCode } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import { EXIT, exitCodeOf } from "../../src/command-line/exit-codes.ts";

describe("exit codes", () => {
  test.each([
    ["cli.usage", 2],
    ["policy.denied", 3],
    ["approval.rejected", 3],
    ["approval.expired", 3],
    ["sandbox.unavailable", 3],
    ["binding.not_active", 3],
    ["daemon.unreachable", 5],
    ["package.corrupt", 6],
    ["timeout", 124],
    ["plugin_failed", 1],
    ["internal", 1],
  ] as const)("%s exits %i", (code, exit) => {
    expect(exitCodeOf(code)).toBe(exit);
  });

  test("every auth.* code exits with 4", () => {
    const codes = Object.keys(ERROR_CODES).filter((code) => code.startsWith("auth."));
    expect(codes.map((code) => exitCodeOf(code))).toEqual(codes.map(() => EXIT.auth));
  });

  test("no error exits with 0 or a reserved code", () => {
    const exits = (Object.keys(ERROR_CODES) as ErrorCode[]).map((code) => exitCodeOf(code));
    expect(exits).not.toContain(EXIT.ok);
    expect(exits).not.toContain(EXIT.interrupted);
  });

  test("a property name of Object.prototype is not an error code", () => {
    expect(exitCodeOf("constructor")).toBe(EXIT.failed);
  });

  test("an unbound secret slot is a denial under every error code", () => {
    expect(exitCodeOf("export.not_found")).toBe(EXIT.failed);
    expect(exitCodeOf("export.not_found", { unbound: ["jira_token"] })).toBe(EXIT.denied);
  });

  test("an interruption by the user exits with 130, a cancel by someone else with 1", () => {
    expect(exitCodeOf("cancelled", { signal: "SIGINT" })).toBe(EXIT.interrupted);
    expect(exitCodeOf("cancelled")).toBe(EXIT.failed);
  });
});
