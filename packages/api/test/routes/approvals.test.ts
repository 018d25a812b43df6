import { afterAll, beforeAll, expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
  await api.call("POST", "/v1/plugin-packages", {
    body: { source: { folder: writeSamplePackage(api.home) } },
  });
  await api.call("POST", "/v1/plugin-bindings", {
    body: { package_id: PACKAGE_ID, package_version: "1.0.0", export_id: "ask" },
  });
});
afterAll(() => api.close());

const ask = async (text: string, session_id?: string) => {
  const response = await api.call("POST", "/v1/invocations", {
    body: { export_id: "ask", input: { text }, ...(session_id && { session_id }) },
  });
  return response.json as { id: string; status: string; approval_id: string };
};
const reply = (id: string, body: object) => api.call("POST", `/v1/approvals/${id}:answer`, { body });

verifies(
  "api.approvals",
  "lists and reads approvals with exact arguments, and accepts only the first answer",
  async () => {
    const { id, approval_id } = await ask("delete everything");
    const pending = (await api.call("GET", "/v1/approvals?status=pending")).json.items;
    expect(pending.map((item: { id: string }) => item.id)).toEqual([approval_id]);
    const approval = (await api.call("GET", `/v1/approvals/${approval_id}`)).json;
    expect(approval).toMatchObject({
      invocation_id: id,
      input: { text: "delete everything" },
      status: "pending",
    });

    const mismatch = await reply(approval_id, { response: "approve", digest: "sha256:other" });
    expect(mismatch.json.error.details.fix).toContain(`backplane approve show ${approval_id}`);
    expect([mismatch.status, mismatch.json.error.code]).toEqual([409, "approval.changed"]);
    const answered = await reply(approval_id, {
      response: "reject",
      feedback: "no",
      digest: approval.digest,
    });
    expect([answered.status, answered.json.status, answered.json.answered_by]).toEqual([
      200,
      "rejected",
      "admin",
    ]);
    const late_answer = await reply(approval_id, { response: "approve" });
    expect([late_answer.status, late_answer.json.error.code]).toEqual([409, "approval.closed"]);

    const events = await api.call("GET", `/v1/invocations/${id}/events`);
    expect(events.text).toMatch(/"code":"approval.rejected"/);
    expect(api.runner.requests).toEqual([]);
    expect((await api.call("GET", "/v1/approvals?status=rejected")).json.items).toHaveLength(1);
  },
);

verifies("api.approvals", "responds 409 to an answer after expiry", async () => {
  const { id, approval_id } = await ask("slowly");
  api.clock.advance(3_600_000);
  await api.call("GET", `/v1/invocations/${id}/events`);
  const late_answer = await reply(approval_id, { response: "approve" });
  expect([late_answer.status, late_answer.json.error.code]).toEqual([409, "approval.closed"]);
  expect((await api.call("GET", `/v1/approvals/${approval_id}`)).json.status).toBe("expired");
});

verifies("api.approvals", "lists, applies and revokes an approval for the session", async () => {
  const first = await ask("the same", "sess_1");
  expect((await reply(first.approval_id, { response: "approve_for_session" })).status).toBe(200);
  const grants = (await api.call("GET", "/v1/approval-grants")).json.items;
  expect(grants).toMatchObject([{ session_id: "sess_1", granted_by: "admin" }]);
  expect((await ask("the same", "sess_1")).status).toBe("running");

  expect((await api.call("DELETE", `/v1/approval-grants/${grants[0].id}`)).status).toBe(204);
  expect((await api.call("GET", "/v1/approval-grants")).json.items).toEqual([]);
  const approval = await ask("the same", "sess_1");
  expect(approval.status).toBe("waiting_approval");
  expect((await api.call("DELETE", `/v1/approval-grants/${grants[0].id}`)).status).toBe(404);
});

verifies(
  "allow.rules",
  "creates, lists and removes allow rules, and creates one from an answer",
  async () => {
    const first = await ask("one");
    const approval = (await api.call("GET", `/v1/approvals/${first.approval_id}`)).json;
    expect(approval.may_cover).toEqual({ session: [], always: ["arguments", "tool"] });
    const refused = await reply(first.approval_id, { response: "approve_always", covers: "server" });
    expect([refused.status, refused.json.error.code]).toEqual([403, "allow_rule.refused"]);
    expect((await reply(first.approval_id, { response: "approve_always" })).json).toMatchObject({
      status: "approved",
      response: "approve_always",
    });
    const { items } = (await api.call("GET", "/v1/allow-rules")).json;
    expect(items).toMatchObject([
      { tool: "ask", covers: "tool", identity: "admin", approval_id: first.approval_id },
    ]);
    const second = await ask("two");
    expect((await api.call("GET", `/v1/invocations/${second.id}`)).json).toMatchObject({
      approval_id: null,
      allowed_by: items[0].id,
    });
    expect((await api.call("DELETE", `/v1/allow-rules/${items[0].id}`)).status).toBe(204);
    const missing = await api.call("DELETE", `/v1/allow-rules/${items[0].id}`);
    expect([missing.status, missing.json.error.code]).toEqual([404, "allow_rule.not_found"]);
    const third = await ask("three");
    expect(third.status).toBe("waiting_approval");
    await reply(third.approval_id, { response: "reject" });
    const conditions = { text: { matches: "note *" } };
    const rule = await api.call("POST", "/v1/allow-rules", { body: { tool: "ask", arguments: conditions } });
    expect([rule.status, rule.json.arguments]).toEqual([201, conditions]);
    expect((await ask("note this")).approval_id).toBeNull();
    await api.call("DELETE", `/v1/allow-rules/${rule.json.id}`);
    const both = await api.call("POST", "/v1/allow-rules", { body: { tool: "ask", server: "x" } });
    expect([both.status, both.json.error.code]).toEqual([400, "request.invalid"]);
  },
);
