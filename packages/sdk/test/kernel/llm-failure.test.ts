import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { BackplaneError } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { classifyFailure, createVendorTransport, LlmCallError } from "../../src/kernel/index.ts";
import { redact } from "../../src/kernel/llm-failure.ts";

const coded = (code: string) => Object.assign(new Error("socket"), { code });
const status = (code: number, headers: Record<string, string>) =>
  Object.assign(new Error("no"), { status: code, headers: new Headers(headers) });

test("classifies an error by its shape", () => {
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

test("reads Retry-After as seconds, milliseconds or a date", () => {
  const later = new Date(Date.now() + 60_000).toUTCString();
  expect(classifyFailure(status(429, { "retry-after": "2" })).retry_after_s).toBe(2);
  expect(classifyFailure(status(429, { "retry-after-ms": "250" })).retry_after_s).toBe(0.25);
  expect(classifyFailure(status(429, { "retry-after": later })).retry_after_s).toBeGreaterThan(50);
  expect(classifyFailure(status(429, { "retry-after": "soon" })).retry_after_s).toBeUndefined();
  expect(classifyFailure(status(429, {})).retry_after_s).toBeUndefined();
});

test("redacts secrets at any depth, the longer one first, and in URLs", () => {
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

verifies(
  "sec.provider-egress",
  "keeps the server's text out of the message, but includes a known vendor code",
  () => {
    const body = { error: { message: "root:x:0:0", type: "private", code: "hunter2" } };
    const sent = (fields: object) => Object.assign(new Error("500 root:x:0:0"), fields);
    const cases: [unknown, string][] = [
      [sent({ status: 500, error: body.error, code: "hunter2" }), "The provider returned HTTP 500."],
      [
        sent({ status: 429, error: { ...body.error, code: "insufficient_quota" } }),
        "The provider returned HTTP 429 (insufficient_quota).",
      ],
      [
        sent({ status: 529, error: { type: "error", error: { type: "overloaded_error", message: "root" } } }),
        "The provider returned HTTP 529 (overloaded_error).",
      ],
      [sent({ status: undefined, error: body.error }), "The provider reported an error."],
      // A code in a response is never treated as a refusal by the gateway.
      [
        sent({ status: 403, name: "BackplaneError", code: "policy.denied" }),
        "The provider returned HTTP 403.",
      ],
    ];
    for (const [error, message] of cases) expect(classifyFailure(error).message).toBe(message);
    // A message that the gateway or the SDK wrote is kept when a vendor's SDK wraps the error.
    const own_failure = new LlmCallError({ kind: "other", message: "it redirects" });
    const refusal = Object.assign(new Error("not there"), { name: "BackplaneError", code: "policy.denied" });
    const wrap = (cause: unknown) => new TypeError("fetch failed", { cause: new TypeError("x", { cause }) });
    expect(classifyFailure(wrap(own_failure))).toEqual({ kind: "other", message: "it redirects" });
    expect(classifyFailure(wrap(refusal))).toEqual({ kind: "other", message: "not there" });
    const with_fix = new BackplaneError("policy.denied", "Not there.", { fix: "Allow it." });
    for (const error of [with_fix, wrap(with_fix)])
      expect(classifyFailure(error)).toEqual({ kind: "other", message: "Not there. Allow it." });
    const without_fix = new BackplaneError("policy.denied", "Not there.");
    expect(classifyFailure(wrap(without_fix)).message).toBe("Not there.");
  },
);

verifies(
  "sec.provider-egress",
  "limits the bytes read from the body of an error and rejects redirects",
  async () => {
    let sent = 0;
    const server = createServer((request, response) => {
      if (request.url === "/moved") return void response.writeHead(302, { location: "/end" }).end();
      response.writeHead(500);
      const more = () => {
        while (!response.destroyed && response.write("x".repeat(16_384))) sent += 16_384;
        response.once("drain", more);
      };
      more();
    });
    await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      // An endless body must not block the response.
      const response = await createVendorTransport().fetch(`${url}/endless`);
      expect([response.status, (await response.text()).length]).toEqual([500, 65_536]);
      expect(sent).toBeGreaterThan(0);
      await expect(createVendorTransport().fetch(`${url}/moved`)).rejects.toMatchObject({
        failure: { message: expect.stringContaining("redirect") },
      });
    } finally {
      server.closeAllConnections();
      server.close();
    }
  },
);
