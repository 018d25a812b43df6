import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
  for (const version of ["1.0.0", "1.1.0"])
    await api.call("POST", "/v1/plugin-packages", {
      body: { source: { folder: writeSamplePackage(api.home, version) } },
    });
});
afterAll(() => api.close());

const bind = (export_id: string, more: object = {}, headers: Record<string, string> = {}) =>
  api.call("POST", "/v1/plugin-bindings", {
    body: { package_id: PACKAGE_ID, package_version: "1.0.0", export_id, ...more },
    headers,
  });

verifies("api.bindings", "creates, lists, reads, changes, validates and removes a binding", async () => {
  const created = await bind("shrink", { config: { window: 5 } });
  expect([created.status, created.headers.etag]).toEqual([201, '"1"']);
  const url = `/v1/plugin-bindings/${created.json.binding_id}`;
  const read = await api.call("GET", url);
  expect([read.json, read.headers.etag]).toEqual([created.json, '"1"']);
  expect((await api.call("GET", "/v1/plugin-bindings?kind=compactor")).json.items).toEqual([created.json]);
  expect((await api.call("GET", "/v1/plugin-bindings?kind=hook")).json.items).toEqual([]);

  const changed = await api.call("PATCH", url, { body: { config: { window: 6 } } });
  expect([changed.status, changed.headers.etag, changed.json.config]).toEqual([200, '"2"', { window: 6 }]);
  const report = await api.call("POST", `${url}:validate`);
  expect([report.status, report.json.valid, report.json.issues]).toEqual([200, true, []]);
  const wrong = await api.call("PATCH", url, { body: { config: { window: "wide" } } });
  expect([wrong.status, wrong.json.error.code]).toEqual([422, "binding.invalid"]);
  expect(wrong.json.error.details.issues).not.toEqual([]);

  expect((await api.call("DELETE", url)).status).toBe(204);
  expect((await api.call("GET", url)).status).toBe(404);
});

verifies("api.bindings", "honors If-Match for writes and If-None-Match for reads", async () => {
  const created = await bind("notify");
  const url = `/v1/plugin-bindings/${created.json.binding_id}`;
  const patch = (match: string) =>
    api.call("PATCH", url, { body: { status: "active" }, headers: { "if-match": match } });
  expect((await patch('"1"')).headers.etag).toBe('"2"');
  const stale = await patch('"1"');
  expect([stale.status, stale.json.error.code]).toEqual([412, "request.precondition"]);
  expect((await patch('"nonsense"')).status).toBe(412);
  expect((await patch('"1", "2"')).headers.etag).toBe('"3"');
  expect((await patch("*")).headers.etag).toBe('"4"');

  const same = await api.call("GET", url, { headers: { "if-none-match": '"4"' } });
  expect([same.status, same.text]).toEqual([304, ""]);
  expect((await api.call("GET", url, { headers: { "if-none-match": '"3"' } })).status).toBe(200);
  const refused = await api.call("DELETE", url, { headers: { "if-match": '"3"' } });
  expect(refused.status).toBe(412);
  expect((await api.call("DELETE", url, { headers: { "if-match": '"4"' } })).status).toBe(204);
});

verifies("api.bindings", "loses no update of 100 concurrent writes", async () => {
  const created = await bind("echo", { config: {} });
  const url = `/v1/plugin-bindings/${created.json.binding_id}`;
  // Each writer adds its own name to the value that it has read, and retries after a conflict.
  const race = async (racer: number) => {
    for (;;) {
      const read = await api.call("GET", url);
      const racers = [...((read.json.config.racers as number[] | undefined) ?? []), racer];
      const change = await api.call("PATCH", url, {
        body: { config: { racers } },
        headers: { "if-match": String(read.headers.etag) },
      });
      if (change.status === 200) return;
      expect(change.status).toBe(412);
    }
  };
  await Promise.all(Array.from({ length: 100 }, (_, racer) => race(racer)));
  const final = (await api.call("GET", url)).json;
  expect(final.config.racers.toSorted((a: number, b: number) => a - b)).toEqual([...Array(100).keys()]);
  expect(final.generation).toBe(101);

  // Without If-Match every patch is applied to the current state.
  const all = await Promise.all(
    Array.from({ length: 100 }, () => api.call("PATCH", url, { body: { status: "active" } })),
  );
  expect(all.map(({ status }) => status)).toEqual(Array(100).fill(200));
  const generations = new Set(all.map(({ json }) => json.generation));
  expect(generations.size).toBe(100);
  expect((await api.call("GET", url)).json.generation).toBe(201);
});

test("returns the first response for a repeated Idempotency-Key and a conflict for another body", async () => {
  const headers = { "idempotency-key": "bind-1" };
  const first = await bind("triage", {}, headers);
  const repeat = await bind("triage", {}, headers);
  expect([repeat.status, repeat.text]).toEqual([201, first.text]);
  expect([first.headers["idempotency-replayed"], repeat.headers["idempotency-replayed"]]).toEqual([
    undefined,
    "true",
  ]);
  const conflict = await bind("triage", { config: {} }, headers);
  expect([conflict.status, conflict.json.error.code]).toEqual([409, "idempotency.conflict"]);
  expect((await bind("triage", {}, { "idempotency-key": "sp ace" })).status).toBe(400);
});

test("stores a response for 24 hours", async () => {
  const headers = { "idempotency-key": "bind-2" };
  const body = { package_version: "1.1.0", rollout: { traffic_percent: 10 } };
  const first = await bind("echo", body, headers);
  expect(first.status).toBe(201);
  api.clock.advance(24 * 3_600_000 - 60_000);
  expect((await bind("echo", body, headers)).text).toBe(first.text);
  api.clock.advance(120_000);
  const after_expiry = await bind("echo", body, headers);
  expect([after_expiry.status, after_expiry.json.error.code]).toEqual([409, "binding.conflict"]);
});

test("changes the version of a binding on create and :rollback, and refuses an ambiguous :upgrade", async () => {
  const bound = await bind("ask", { policy: { approval: "always" } });
  const upgraded = await bind("ask", { package_version: "1.1.0" });
  expect([bound.status, upgraded.status]).toEqual([201, 200]);
  const { binding_id } = bound.json;
  expect(upgraded.json).toMatchObject({ binding_id, generation: 2, policy: { approval: "always" } });
  const rolled_back = await api.call("POST", `/v1/plugin-bindings/${binding_id}:rollback`, {
    headers: { "if-match": '"2"' },
  });
  expect([rolled_back.status, rolled_back.json.package_version]).toEqual([200, "1.0.0"]);
  const stale = await api.call("POST", `/v1/plugin-bindings/${binding_id}:rollback`, {
    headers: { "if-match": '"2"' },
  });
  expect(stale.status).toBe(412);
  const none = { package_id: "acme/none", package_version: "1.0.0" };
  expect((await api.call("POST", "/v1/plugin-bindings:upgrade", { body: none })).status).toBe(404);
  const ambiguous = await api.call("POST", "/v1/plugin-bindings:upgrade", {
    body: { package_id: PACKAGE_ID, package_version: "1.1.0" },
  });
  // `echo` is bound in two versions by now.
  expect([ambiguous.status, ambiguous.json.error.code]).toEqual([409, "binding.conflict"]);
});

verifies("api.bindings", "reports the pending deliveries of a hook when it is disabled", async () => {
  const url = `/v1/plugin-bindings/${(await bind("notify")).json.binding_id}`;
  await api.call("POST", `${url}:pause`);
  for (let n = 0; n < 2; n++) await api.call("POST", `${url}:test`, { body: {} });
  const disabled = await api.call("PATCH", url, { body: { status: "disabled" } });
  expect([disabled.status, disabled.json.status, disabled.json.waiting_deliveries]).toEqual([
    200,
    "disabled",
    2,
  ]);
  expect((await api.call("GET", url)).json).not.toHaveProperty("waiting_deliveries");
  const enabled = await api.call("PATCH", url, { body: { status: "active" } });
  expect(enabled.json).not.toHaveProperty("waiting_deliveries");
  const tool = await bind("echo");
  const off = await api.call("PATCH", `/v1/plugin-bindings/${tool.json.binding_id}`, {
    body: { status: "disabled" },
  });
  expect(off.json).not.toHaveProperty("waiting_deliveries");
});

verifies("api.bindings", "lists upgrades that are held because they request more permissions", async () => {
  const list = () => api.call("GET", "/v1/plugin-bindings:waiting-upgrades");
  expect((await list()).json).toEqual({ items: [], next: null });
  const source = { folder: writeSamplePackage(api.home, "1.2.0", "", ["chains:read"]) };
  await api.call("POST", "/v1/plugin-packages", { body: { source } });
  const existing = await api.call("GET", `/v1/plugin-bindings?package_id=${PACKAGE_ID}`);
  for (const { binding_id } of existing.json.items)
    await api.call("DELETE", `/v1/plugin-bindings/${binding_id}`);
  const bound = await bind("echo", { config: {} });
  const body = { package_id: PACKAGE_ID, package_version: "1.2.0", new_permissions: "hold" };
  expect((await api.call("POST", "/v1/plugin-bindings:upgrade", { body })).status).toBe(200);
  const { status, json } = await list();
  expect(status).toBe(200);
  expect(json.items).toMatchObject([
    {
      waits_for: "permissions",
      version: "1.0.0",
      other_version: "1.2.0",
      binding_ids: [bound.json.binding_id],
      message: expect.stringContaining("requests more permissions (gateway_api_scopes)"),
      fix: expect.stringContaining("backplane plugin upgrade acme/devkit@1.2.0 --grant-permissions"),
    },
  ]);
  const rollBack = () =>
    api.call("POST", "/v1/plugin-bindings:rollback", { body: { package_id: PACKAGE_ID } });
  const withdrawn = await rollBack();
  expect([withdrawn.status, withdrawn.json.items]).toEqual([
    200,
    [expect.not.objectContaining({ held_upgrade: expect.anything() })],
  ]);
  expect((await list()).json.items).toEqual([]);
  expect((await rollBack()).json.error.code).toBe("binding.not_found");
});
