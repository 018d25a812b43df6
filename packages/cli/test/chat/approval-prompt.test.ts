import type { Approval, Risk } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import { keysHint, keysText, questionText, readAnswer } from "../../src/chat/approval-prompt.ts";
import { createOutput } from "../../src/terminal/output.ts";
import { captureIo } from "../support/capture-io.ts";

function approval(risk: Risk): Approval {
  return {
    id: "appr_1",
    invocation_id: "inv_1",
    org_id: "org_local",
    project_id: null,
    session_id: "s1",
    tool: "rm",
    package_id: "acme/files",
    package_version: "1.0.0",
    input: { path: "/tmp/x", note: "\u001b[2Jgone" },
    digest: "sha256:1",
    may_cover: { session: ["arguments"], always: [] },
    replaces: null,
    changed: [],
    brief: "remove a file",
    reason: "",
    risk,
    status: "pending",
    response: null,
    feedback: null,
    answered_by: null,
    durable: false,
    requested_at: "2026-01-01T00:00:00.000Z",
    expires_at: "2026-01-01T00:05:00.000Z",
    resolved_at: null,
  };
}

describe("answers", () => {
  const digest = "sha256:1";
  test.each([
    ["y", { response: "approve", digest }],
    [" YES ", { response: "approve", digest }],
    ["s", { response: "approve_for_session", digest }],
    ["n", { response: "reject", digest }],
    ["no", { response: "reject", digest }],
    ["n too risky", { response: "reject", digest, feedback: "too risky" }],
    ["no, not today", { response: "reject", digest, feedback: "not today" }],
    ["yes do it", null],
    ["note this", null],
    ["always", null],
  ])("parses the line %j", (line, answer) => {
    expect(readAnswer(approval("low"), line)).toEqual(answer);
  });

  test.each(["high", "critical", "unknown"] as const)("Enter rejects a call of %s risk", (risk) => {
    expect(readAnswer(approval(risk), "")).toEqual({ response: "reject", digest });
    expect(keysText(approval(risk))).toContain("Enter: n");
  });

  test.each(["low", "medium"] as const)("Enter neither approves nor rejects a call of %s risk", (risk) => {
    expect(readAnswer(approval(risk), "")).toBeNull();
    expect(keysText(approval(risk))).not.toContain("Enter");
  });
});

test("offers and reads only the answers that the gateway permits", () => {
  const wide = approval("low");
  wide.may_cover = { session: ["arguments", "tool"], always: ["arguments", "tool", "server"] };
  const digest = "sha256:1";
  expect(keysText(wide)).toContain(
    "[t] rm in this session  [a] always rm  [v] always all tools of acme/files  [n]",
  );
  expect(keysHint(wide)).toBe("Answer y, s, t, a, v or n.");
  expect(readAnswer(wide, "t")).toEqual({ response: "approve_for_session", covers: "tool", digest });
  expect(readAnswer(wide, "always")).toEqual({ response: "approve_always", covers: "tool", digest });
  expect(readAnswer(wide, "v")).toEqual({ response: "approve_always", covers: "server", digest });
  const question = questionText(createOutput(captureIo(), {}), wide, "s1");
  expect(question).toContain('"always" lasts beyond this session, for calls of up to low risk');
  const narrow = { ...wide, may_cover: { session: [], always: [] } };
  for (const line of ["s", "t", "a", "v"]) expect(readAnswer(narrow, line)).toBeNull();
  expect(keysText(narrow)).toBe("  [y] once  [n] reject, or n and a reason: ");
});

test("shows package, risk and exact arguments, sanitized", () => {
  const text = questionText(createOutput(captureIo(), {}), approval("high"), "s1");
  expect(text).toContain("rm of acme/files@1.0.0 requests approval (high risk)");
  expect(text).toContain('"path": "/tmp/x"');
  expect(text).not.toContain("\u001b");
  expect(text).not.toContain("for s1");
  expect(questionText(createOutput(captureIo(), {}), approval("high"), "other")).toContain("for s1");
});

test("escapes invisible characters in the arguments", () => {
  const input = { path: "a\u202eb\u{e0069}\u200b\u009b31m" };
  const text = questionText(createOutput(captureIo(), {}), { ...approval("low"), input }, "s1");
  const json_text = text.slice(text.indexOf("{"));
  expect(json_text).toContain("a\\u202eb\\udb40\\udc69\\u200b\\u009b31m");
  expect(JSON.parse(json_text)).toEqual(input);
});
