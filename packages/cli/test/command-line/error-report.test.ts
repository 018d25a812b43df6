import { BackplaneError, ERROR_CODES } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import { errorDocument, errorLines, toErrorReport } from "../../src/command-line/error-report.ts";

describe("error report", () => {
  test("prints the error, its reason and its fix", () => {
    expect(errorLines({ code: "secret.not_found", message: "jira_dev is not stored in org_local." })).toBe(
      [
        "error[secret.not_found] There is no such secret.",
        "jira_dev is not stored in org_local.",
        "fix: Store it with `backplane secret set NAME`.",
      ].join("\n"),
    );
  });

  test("prints three non-empty lines for every code, even without a message", () => {
    for (const code of Object.keys(ERROR_CODES) as (keyof typeof ERROR_CODES)[]) {
      const lines = errorLines(toErrorReport(new BackplaneError(code))).split("\n");
      expect(lines, code).toHaveLength(3);
      expect(lines[0], code).toMatch(/^error\[[a-z_.]+\] ./);
      expect(lines[1], code).not.toBe("");
      expect(lines[2], code).toMatch(/^fix: ./);
    }
  });

  test("puts a multi-line message with escape sequences on one sanitized line", () => {
    const lines = errorLines({
      code: "launch_failed",
      message: "no \u001b[31minterpreter\u001b[0m\r\npython3\n",
    });
    expect(lines.split("\n")).toHaveLength(3);
    expect(lines.split("\n")[1]).toBe("no interpreter · python3 ·");
    expect(lines).not.toContain("\u001b");
  });

  test("includes issues and the request id in the second line", () => {
    const details = {
      issues: [
        { path: "input.query", message: "must be a string" },
        { path: "", message: "too big" },
      ],
    };
    const reason = errorLines({ code: "input.invalid", message: "", details, request_id: "req_1" }).split(
      "\n",
    )[1];
    expect(reason).toBe("input.query: must be a string; (top): too big (request req_1)");
  });

  test("suggests the command that binds an unbound slot", () => {
    const details = { binding_id: "bind_1", unbound: ["jira_token"] };
    const failure = toErrorReport(new BackplaneError("export.not_found", "It waits.", { details }));
    expect(errorLines(failure).split("\n")[2]).toBe(
      "fix: backplane binding set bind_1 --secret jira_token=NAME",
    );
  });

  test("does not repeat the first issue as the message", () => {
    const details = { issues: [{ path: "", message: "must have name" }] };
    const failure = { code: "input.invalid", message: "the input: must have name", details };
    expect(errorLines(failure).split("\n")[1]).toBe("(top): must have name");
  });

  test("does not repeat a message that is also an issue, or that begins with the first line", () => {
    const message = "There is no key nobody.";
    const issues = [
      { path: "body.identity", message },
      { path: "body.note", message: "is too long" },
    ];
    const [, reason, fix] = errorLines({ code: "request.invalid", message, details: { issues } }).split("\n");
    expect([reason, fix]).toEqual([
      "There is no key nobody. body.note: is too long",
      "fix: Correct the fields named above.",
    ]);
    const { description } = ERROR_CODES["backup.invalid"];
    const invalid = { code: "backup.invalid", message: `${description.slice(0, -1)}: it is not a tar file.` };
    expect(errorLines(invalid).split("\n")[1]).toBe("It is not a tar file.");
    const ended = { code: "cancelled", message: `${ERROR_CODES.cancelled.description} (inv_1)` };
    expect(errorLines(ended).split("\n")[1]).toBe("(inv_1)");
  });

  test("prints the values of details that a remedy refers to, and never a field name", () => {
    const fixFor = (code: keyof typeof ERROR_CODES, details?: Record<string, unknown>) =>
      errorLines({ code, message: "Why.", details }).split("\n")[2];
    expect(fixFor("auth.scope", { needs: "bindings:write" })).toBe(
      "fix: Use a key with the scope bindings:write.",
    );
    expect(fixFor("package.platform", { supported: ["linux-x64", "darwin-arm64"] })).toBe(
      "fix: Use a build for one of the platforms linux-x64, darwin-arm64.",
    );
    for (const code of Object.keys(ERROR_CODES) as (keyof typeof ERROR_CODES)[])
      expect(fixFor(code), code).not.toContain("details.");
  });

  test.each([
    ["package.bound", { bindings: ["bind_1"] }, "backplane binding remove bind_1"],
    ["package.bound", { bindings: ["bind_1", "bind_2"] }, "backplane binding remove bind_1 (and bind_2)"],
    ["secret.in_use", { used_by: ["bind_3"] }, "backplane binding set --unset-secret SLOT bind_3"],
    ["binding.conflict", { binding_id: "bind_4" }, "backplane binding set bind_4 with the same flags"],
    ["package.bound", { bindings: [] }, "Delete the bindings named above first."],
  ] as const)("builds the fix for %s from its details: %j", (code, details, fix) => {
    const failure = toErrorReport(new BackplaneError(code, undefined, { details: { ...details } }));
    expect(errorLines(failure).split("\n")[2]).toBe(`fix: ${fix}`);
  });

  test("prints the line of an issue, and its path only once", () => {
    const issues = [
      { path: "", line: 2, message: "this is not valid TOML" },
      { path: "exports[0].id", line: 9, message: "exports[0].id is 5; write a name" },
      { path: "/name", message: "must be string" },
    ];
    const error = new BackplaneError("package.invalid", "a.toml:2: this is not valid TOML", {
      details: { issues },
    });
    expect(errorLines(toErrorReport(error)).split("\n")[1]).toBe(
      "line 2: this is not valid TOML; line 9: exports[0].id is 5; write a name; /name: must be string",
    );
  });

  test("prints an unknown code from a newer gateway unchanged", () => {
    const [first, reason] = errorLines({ code: "moon.full", message: "The moon is full." }).split("\n");
    expect(first).toContain("error[moon.full]");
    expect(reason).toBe("The moon is full.");
  });

  test("builds a JSON document with code, message, fix and exit code", () => {
    const error = new BackplaneError("daemon.unreachable", "refused", { details: { url: "http://x" } });
    expect(errorDocument(toErrorReport(error), 5)).toEqual({
      error: {
        code: "daemon.unreachable",
        message: "refused",
        retryable: true,
        fix: ERROR_CODES["daemon.unreachable"].remedy,
        details: { url: "http://x" },
        request_id: undefined,
        exit_code: 5,
      },
    });
  });
});
