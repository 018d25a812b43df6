import { expect, test } from "vitest";
import { classifyFailure, LlmCallError } from "../../src/kernel/index.ts";
import { redact } from "../../src/kernel/llm-failure.ts";

const coded = (code: string) => Object.assign(new Error("socket"), { code });
const status = (code: number, headers: Record<string, string>) =>
  Object.assign(new Error("no"), { status: code, headers: new Headers(headers) });

test("the kind is told by the shape of what was thrown", () => {
  class APIConnectionTimeoutError extends Error {}
  class APIConnectionError extends Error {}
  const cases: [unknown, string][] = [
    [new LlmCallError({ kind: "empty", message: "x" }), "empty"],
    [status(500, {}), "status"],
    [new APIConnectionTimeoutError("late"), "timeout"],
    [new APIConnectionError("Connection error.", { cause: coded("ECONNREFUSED") }), "connection"],
    [new APIConnectionError("Connection error.", { cause: coded("UND_ERR_HEADERS_TIMEOUT") }), "timeout"],
    [new TypeError("terminated", { cause: coded("UND_ERR_SOCKET") }), "connection"],
    [coded("ENOTFOUND"), "connection"],
    [coded("ENOENT"), "other"],
    [new TypeError("x is not a function"), "other"],
    ["words", "other"],
    [undefined, "other"],
  ];
  for (const [error, kind] of cases) expect(classifyFailure(error).kind).toBe(kind);
  expect(classifyFailure(null).message).toBe("The provider failed and gave no reason.");
});

test("Retry-After is read as seconds, milliseconds or a date", () => {
  const later = new Date(Date.now() + 60_000).toUTCString();
  expect(classifyFailure(status(429, { "retry-after": "2" })).retry_after_s).toBe(2);
  expect(classifyFailure(status(429, { "retry-after-ms": "250" })).retry_after_s).toBe(0.25);
  expect(classifyFailure(status(429, { "retry-after": later })).retry_after_s).toBeGreaterThan(50);
  expect(classifyFailure(status(429, { "retry-after": "soon" })).retry_after_s).toBeUndefined();
  expect(classifyFailure(status(429, {})).retry_after_s).toBeUndefined();
});

test("secrets are hidden at any depth, the longer one first, and in addresses", () => {
  const config = {
    api_key: "abcd-long/1",
    extra: { backup_token: "abcd", password: ["pass word"] },
    model: "abcdef-model",
    pin_secret: "12",
  };
  expect(redact("k abcd-long/1 t abcd p pass word u pass%20word n 12 at https://u:p@host", config)).toBe(
    "k **** t **** p **** u **** n 12 at https://****@host",
  );
});
