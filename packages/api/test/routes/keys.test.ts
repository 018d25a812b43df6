import { generateKeyPairSync } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROLES } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

const isOnDisk = (text: string) =>
  readdirSync(api.home)
    .filter((name) => name.startsWith("store.db"))
    .some((name) => readFileSync(join(api.home, name)).includes(text));

verifies(
  "api.keys",
  "creates a key with org, project, role and scopes, returns its token once, stores a hash and revokes it",
  async () => {
    for (const role of ROLES) {
      const created = await api.call("POST", "/v1/keys", {
        body: { name: `a ${role}`, role, project_id: "proj_a", scopes: ["secrets:read"] },
      });
      expect([created.status, created.json.key.role]).toEqual([201, role]);
    }
    const body = { name: "reader", project_id: "proj_a", role: "user", scopes: ["secrets:read"] };
    const created = await api.call("POST", "/v1/keys", { body });
    const { key, token } = created.json;
    expect(token).toMatch(/^bpk_/);
    expect(key).toMatchObject({
      org_id: "org_local",
      project_id: "proj_a",
      role: "user",
      scopes: ["secrets:read"],
    });

    expect((await api.call("GET", "/v1/secrets", { token })).status).toBe(200);
    const without_scope = await api.call("GET", "/v1/keys", { token });
    expect([without_scope.status, without_scope.json.error.details.needs]).toEqual([403, "keys:read"]);
    expect((await api.call("GET", "/v1/status", { token })).json.caller).toMatchObject({
      actor: key.id,
      project_id: "proj_a",
    });

    const elsewhere = await api.call("POST", "/v1/keys", {
      body: { ...body, org_id: "org_b", project_id: null },
    });
    expect(elsewhere.json.key).toMatchObject({ org_id: "org_b", project_id: null });
    const status = await api.call("GET", "/v1/status", { token: elsewhere.json.token });
    expect(status.json.caller).toMatchObject({ org_id: "org_b", project_id: null, role: "user" });

    const all = await api.call("GET", "/v1/keys?project=*");
    expect(all.json.items.map((item: { id: string }) => item.id)).toContain(key.id);
    expect((await api.call("GET", "/v1/keys")).text).not.toContain(key.id);
    expect((await api.call("GET", "/v1/keys?project=nowhere")).status).toBe(400);
    const listed = await api.call("GET", "/v1/keys", { headers: { "backplane-project": "*" } });
    expect(listed.text).not.toContain(elsewhere.json.key.id);
    expect(listed.json.items.map((item: { id: string }) => item.id)).toContain(key.id);
    expect(listed.text).not.toContain(token);
    expect(isOnDisk(key.id)).toBe(true);
    expect(isOnDisk(token)).toBe(false);

    expect((await api.call("DELETE", `/v1/keys/${key.id}`)).status).toBe(404);
    expect((await api.call("DELETE", `/v1/keys/${key.id}?project=*`)).status).toBe(204);
    const revoked = await api.call("GET", "/v1/secrets", { token });
    expect([revoked.status, revoked.json.error.code]).toEqual([401, "auth.invalid"]);
  },
);

test("returns no token for a repeated create", async () => {
  const headers = { "idempotency-key": "key-1" };
  const body = { name: "once", scopes: ["secrets:read"] };
  const first = await api.call("POST", "/v1/keys", { body, headers });
  const repeat = await api.call("POST", "/v1/keys", { body, headers });
  expect([first.status, repeat.status]).toEqual([201, 201]);
  expect(first.json.token).toMatch(/^bpk_/);
  expect(repeat.json).toEqual({ key: first.json.key, token: null });
  expect(isOnDisk(first.json.token)).toBe(false);
});

test("rejects an expired key", async () => {
  const expires_at = new Date(api.clock.now() + 60_000).toISOString();
  const created = await api.call("POST", "/v1/keys", {
    body: { name: "short", scopes: ["secrets:read"], expires_at },
  });
  expect((await api.call("GET", "/v1/secrets", { token: created.json.token })).status).toBe(200);
  api.clock.advance(61_000);
  expect((await api.call("GET", "/v1/secrets", { token: created.json.token })).status).toBe(401);
});

verifies(
  "pkg.sign",
  "trusts a signing key with 201 and changes it with 200 until it is revoked",
  async () => {
    const { publicKey } = generateKeyPairSync("ed25519");
    const public_key = publicKey.export({ type: "spki", format: "pem" });
    const trust = async (more: object) => {
      const body = { name: "Acme", public_key, ...more };
      const { status, json } = await api.call("POST", "/v1/trusted-keys", { body });
      return { status, json };
    };
    const expired = await trust({ not_after: "2020-01-01T00:00:00Z" });
    expect([expired.status, expired.json.error.code]).toEqual([400, "request.invalid"]);
    expect(expired.json.error.details.issues).toMatchObject([{ path: "body.not_after" }]);
    const created = await trust({ packages: ["acme/*"], not_after: "2998-01-01T00:00:00Z" });
    expect(created.status).toBe(201);
    const renewed = await trust({ not_after: "2999-01-01T00:00:00Z" });
    expect(renewed).toEqual({ status: 200, json: { ...created.json, not_after: "2999-01-01T00:00:00Z" } });
    expect((await trust({ not_after: null })).json).toEqual({ ...created.json, not_after: null });
    await api.call("POST", `/v1/trusted-keys/${created.json.id}:revoke`, { body: {} });
    const revoked = await trust({});
    expect([revoked.status, revoked.json.error.code]).toEqual([409, "trusted_key.conflict"]);
  },
);
