import { ERROR_CODES, type ErrorCode } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import { EXIT, toExitCode } from "../../src/command-line/exit-codes.ts";

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
  ] as const)("%s exits with %i", (code, exit) => {
    expect(toExitCode(code)).toBe(exit);
  });

  test("every auth.* code exits with 4", () => {
    const codes = Object.keys(ERROR_CODES).filter((code) => code.startsWith("auth."));
    expect(codes.map((code) => toExitCode(code))).toEqual(codes.map(() => EXIT.auth));
  });

  test("no error code exits with 0 or, without a signal, with 130", () => {
    const exits = (Object.keys(ERROR_CODES) as ErrorCode[]).map((code) => toExitCode(code));
    expect(exits).not.toContain(EXIT.ok);
    expect(exits).not.toContain(EXIT.interrupted);
  });

  test("a property name of Object.prototype is not an error code", () => {
    expect(toExitCode("constructor")).toBe(EXIT.failed);
  });

  test("an unbound secret slot is a denial under every error code", () => {
    expect(toExitCode("export.not_found")).toBe(EXIT.failed);
    expect(toExitCode("export.not_found", { unbound: ["jira_token"] })).toBe(EXIT.denied);
  });

  test("an interruption by the user exits with 130, a cancellation by someone else with 1", () => {
    expect(toExitCode("cancelled", { signal: "SIGINT" })).toBe(EXIT.interrupted);
    expect(toExitCode("cancelled")).toBe(EXIT.failed);
  });
});
