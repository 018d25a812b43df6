import { expect, test } from "vitest";
import { EXIT } from "../../../src/index.ts";
import { errorResponse, startFakeGateway } from "../../support/fake-gateway.ts";

test.each([
  [403, "auth.scope", EXIT.auth],
  [503, "store.unavailable", EXIT.failed],
])("reports a session that cannot be read (%i %s) instead of creating it", async (status, code, exit) => {
  const gateway = await startFakeGateway(() => errorResponse(status, code));
  const result = await gateway.backplane("run", "start", "--session", "s", "--input", "hi", "--wait");
  expect(result.err).toContain(`error[${code}]`);
  expect(result.exit).toBe(exit);
  expect(gateway.requests).toEqual(["GET /v1/sessions/s"]);
});

test("creates a session that does not exist", async () => {
  const gateway = await startFakeGateway((_url, { method }) =>
    method === "GET" ? errorResponse(404, "session.not_found") : errorResponse(403, "auth.scope"),
  );
  await gateway.backplane("run", "start", "--session", "s", "--input", "hi", "--wait");
  expect(gateway.requests).toEqual(["GET /v1/sessions/s", "POST /v1/sessions"]);
});
