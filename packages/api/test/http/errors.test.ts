import { once } from "node:events";
import { connect } from "node:net";
import { BackplaneError, diskFault } from "@backplane/contract";
import { ErrorEnvelopeSchema } from "@backplane/contract/schema";
import type { Kernel } from "@backplane/ports";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { toErrorResponse } from "../../src/http/error-envelope.ts";
import { startApi, type TestApi, type TestResponse } from "../support/start-api.ts";

let api: TestApi;
let next_error: unknown;
beforeAll(async () => {
  // A kernel whose audit log throws `next_error`.
  const wrap = (kernel: Kernel): Kernel => ({
    ...kernel,
    audit: { ...kernel.audit, list: () => Promise.reject(next_error) },
  });
  api = await startApi({ wrap, api: { limits: { body_bytes: 2_000 } } });
});
afterAll(() => api.close());

function expectEnvelope(response: TestResponse) {
  const { error } = ErrorEnvelopeSchema.strict().parse(response.json);
  const keys = Object.keys(response.json.error);
  expect(keys).toEqual(["code", "message", "retryable", "details", "request_id", "doc_url"]);
  expect(error.request_id).toBe(response.headers["x-request-id"]);
  expect(error.doc_url).toBe(`/docs/errors#${error.code}`);
  expect(typeof error.details?.fix).toBe("string");
  return error;
}

verifies(
  "api.errors",
  "uses the error envelope for failures of routes, parsers, router and framework",
  async () => {
    const json = { "content-type": "application/json" };
    const cases: [TestResponse, number, string][] = [
      [await api.call("GET", "/nowhere"), 404, "route.not_found"],
      [await api.call("DELETE", "/v1/status"), 404, "route.not_found"],
      [await api.call("GET", "/v1/plugin-packages/%ff"), 400, "request.invalid"],
      [await api.call("GET", `/v1/plugin-packages/${"x".repeat(600)}`), 400, "request.invalid"],
      [await api.call("GET", "/v1/plugin-packages?limit=many"), 400, "request.invalid"],
      // Names that no store can contain are refused before the store is queried.
      [await api.call("GET", "/v1/invocations/a%00b"), 400, "request.invalid"],
      [await api.call("GET", "/v1/invocations?session_id=%00"), 400, "request.invalid"],
      [await api.call("GET", "/v1/plugin-bindings?after=%07"), 400, "request.invalid"],
      [
        await api.call("POST", "/v1/invocations", { body: { export_id: "echo", session_id: "a\u0000" } }),
        400,
        "request.invalid",
      ],
      [
        await api.call("POST", "/v1/invocations", {
          body: '{"export_id":"e","trace_id":"\\ud800"}',
          headers: json,
        }),
        400,
        "request.invalid",
      ],
      [
        await api.call("POST", "/v1/plugin-bindings", { body: "{oops", headers: json }),
        400,
        "request.invalid",
      ],
      [
        await api.call("POST", "/v1/plugin-bindings", { body: "[".repeat(99), headers: json }),
        400,
        "request.invalid",
      ],
      [
        await api.call("POST", "/v1/plugin-bindings", { body: '{"__proto__":{}}', headers: json }),
        400,
        "request.invalid",
      ],
      [
        await api.call("POST", "/v1/plugin-bindings", { body: { x: "y".repeat(3_000) } }),
        413,
        "request.too_large",
      ],
      [
        await api.call("POST", "/v1/plugin-bindings", { body: "x", headers: { "content-type": "x/y" } }),
        415,
        "request.not_json",
      ],
      [await api.call("GET", "/v1/status", { token: null }), 401, "auth.missing"],
      [await api.call("GET", "/v1/plugin-packages/pkg_none"), 404, "package.not_found"],
    ];
    for (const [response, status, code] of cases) {
      expect([response.status, expectEnvelope(response).code]).toEqual([status, code]);
    }
    const lost = toErrorResponse(Object.assign(new Error("aborted"), { code: "ECONNRESET" }), "req_1", "/d");
    expect([lost.status, lost.unexpected]).toEqual([400, null]);
    const issues = expectEnvelope(await api.call("POST", "/v1/keys", { body: { name: 1 } })).details?.issues;
    expect(issues).toContainEqual({ path: "body.name", message: expect.any(String) });
  },
);

verifies(
  "api.errors",
  "hides stack, path, SQL and secrets of internal errors from the client, and logs the error",
  async () => {
    const secret = "tok_4711";
    next_error = Object.assign(
      new Error(`SQLITE_ERROR: select * from keys where token='${secret}' at /srv/app/x.ts:1`),
      {
        code: "SQLITE_ERROR",
        statusCode: 500,
      },
    );
    const response = await api.call("GET", "/v1/audit");
    expect([response.status, expectEnvelope(response).code]).toEqual([500, "internal"]);
    expect(response.text).not.toMatch(/select|SQLITE|\/srv|tok_4711|stack|at .*:\d+/);
    expect(api.logged.at(-1)?.fields).toMatchObject({
      request_id: response.json.error.request_id,
      err: next_error,
    });
  },
);

verifies(
  "fault.disk",
  "responds 503 when the disk fails, and mentions the file only in the log",
  async () => {
    const failures = { ENOSPC: /no space left/, EDQUOT: /quota/, EIO: /I\/O error/ };
    for (const [code, problem] of Object.entries(failures)) {
      const cause = Object.assign(new Error(`${code}: open '/srv/home/x'`), { code, syscall: "open" });
      for (next_error of [cause, diskFault(cause, "the package store")]) {
        const response = await api.call("GET", "/v1/audit");
        const { message, retryable, details, ...error } = expectEnvelope(response);
        expect([response.status, error.code, retryable]).toEqual([503, "store.unavailable", true]);
        expect(response.headers["retry-after"]).toBe("1");
        expect(message).toMatch(problem);
        expect(details?.fix).toMatch(/then try again/);
        expect(response.text).not.toContain("/srv");
        expect(api.logged.at(-1)?.fields).toMatchObject({ err: { cause } });
      }
    }
  },
);

test("keeps message, details and fix of kernel errors, and adds Retry-After to 429", async () => {
  next_error = new BackplaneError("invocation.queue_full", "Eleven calls wait.", {
    details: { waiting: 11, retry_after_ms: 2_500 },
    fix: "Come back later.",
  });
  const response = await api.call("GET", "/v1/audit");
  expect([response.status, response.headers["retry-after"]]).toEqual([429, "3"]);
  expect(expectEnvelope(response)).toMatchObject({
    message: "Eleven calls wait.",
    retryable: true,
    details: { waiting: 11, fix: "Come back later." },
  });
});

test("accepts a well-formed request id and replaces any other", async () => {
  const accepted = await api.call("GET", "/healthz", { headers: { "x-request-id": "client-7.a" } });
  expect(accepted.headers["x-request-id"]).toBe("client-7.a");
  for (const bad of ["a b", "<script>", "x".repeat(200), ""]) {
    const created = await api.call("GET", "/healthz", { headers: { "x-request-id": bad } });
    expect(created.headers["x-request-id"]).toMatch(/^req_[0-9a-z]{26}$/);
  }
});

test("sends the same bytes for all binding.not_found errors", () => {
  const first_response = toErrorResponse(
    new BackplaneError("binding.not_found", "bind_1 is in proj_b"),
    "req_1",
    "/d",
  );
  const second_response = toErrorResponse(
    new BackplaneError("binding.not_found", undefined, { details: { a: 1 } }),
    "req_1",
    "/d",
  );
  expect(JSON.stringify(first_response.envelope)).toBe(JSON.stringify(second_response.envelope));
});

test("responds with the error envelope to bytes that are not HTTP", async () => {
  await api.api.listen({ host: "127.0.0.1", port: 0 });
  const { port } = api.api.server.address() as { port: number };
  const socket = connect(port, "127.0.0.1");
  socket.end("NONSENSE\r\n\r\n");
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk;
  });
  await once(socket, "close");
  expect(text).toMatch(/^HTTP\/1\.1 400 /);
  expect(ErrorEnvelopeSchema.parse(JSON.parse(text.split("\r\n\r\n")[1]!)).error.code).toBe(
    "request.invalid",
  );
});
