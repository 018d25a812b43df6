import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

test("shows a key once, stores its hash and rejects it once revoked or expired", async () => {
  const fixture = await createTestKernel();
  const { keys } = fixture.kernel;
  const { key, token } = await keys.create(admin, {
    name: "ci",
    role: "user",
    scopes: ["invocations:write"],
  });
  expect(token).toMatch(/^bpk_[A-Za-z0-9_-]{43}$/);
  expect(JSON.stringify([key, await keys.list(admin, { limit: 10 })])).not.toContain(token);
  expect(await keys.authenticate(token)).toEqual({
    actor: key.id,
    scope,
    role: "user",
    scopes: ["invocations:write"],
    admin: false,
  });
  for (const wrong of ["bpk_nothing", "", `${token}x`, "vai_dlg_nothing"]) {
    await expect(keys.authenticate(wrong)).rejects.toMatchObject({ code: "auth.invalid" });
  }
  await keys.revoke(admin, key.id);
  await expect(keys.authenticate(token)).rejects.toMatchObject({ code: "auth.invalid" });
  await expect(keys.revoke(admin, "key_nothing")).rejects.toMatchObject({ code: "key.not_found" });
  const expires_at = new Date(fixture.clock.now() + 60_000).toISOString();
  const short = await keys.create(admin, { name: "short", role: "user", scopes: ["audit:read"], expires_at });
  await keys.authenticate(short.token);
  fixture.clock.wall_offset = 61_000;
  await expect(keys.authenticate(short.token)).rejects.toMatchObject({ code: "auth.invalid" });
});

test("rejects the creation of a key with more rights than the caller's", async () => {
  const fixture = await createTestKernel();
  const { keys } = fixture.kernel;
  const maker: Caller = { ...user, scopes: ["keys:write", "invocations:write"] };
  const base = { name: "k", role: "user" as const, scopes: ["invocations:write" as const] };
  await keys.create(maker, base);
  const wider = [
    { ...base, scopes: ["admin" as const] },
    { ...base, scopes: ["secrets:write" as const] },
    { ...base, role: "owner" as const },
    { ...base, project_id: null },
    { ...base, project_id: "proj_other" },
    { ...base, org_id: "org_other" },
  ];
  for (const body of wider) {
    await expect(keys.create(maker, body)).rejects.toMatchObject({ code: "policy.denied" });
  }
  const org_key = await keys.create(admin, { ...base, scopes: ["admin"], project_id: null });
  const org_admin = await keys.authenticate(org_key.token);
  expect(org_admin.admin).toBe(true);
  await expect(keys.create(org_admin, { ...base, org_id: "org_other" })).rejects.toMatchObject({
    code: "policy.denied",
  });
});

test("lets the admin token manage keys of every project of the org, and a key only those of its scope", async () => {
  const fixture = await createTestKernel();
  const { keys, audit } = fixture.kernel;
  const base = { role: "user" as const, scopes: ["audit:read" as const] };
  const here = await keys.create(admin, { ...base, name: "here" });
  const there = await keys.create(admin, { ...base, name: "there", project_id: "proj_other" });
  const whole = await keys.create(admin, { ...base, name: "whole", scopes: ["admin"], project_id: null });
  const foreign = await keys.create(admin, { ...base, name: "foreign", org_id: "org_other" });
  const names = async (caller: Caller, project?: string) =>
    (await keys.list(caller, { limit: 9 }, project === undefined ? {} : { project })).items.map(
      ({ name }) => name,
    );
  expect(await names(admin)).toEqual(["here"]);
  expect(await names(admin, "*")).toEqual(["whole", "there", "here"]);
  expect(await names(admin, "proj_other")).toEqual(["there"]);
  const wide = await keys.authenticate(whole.token);
  expect(await names(wide, "proj_other")).toEqual(["there"]);
  expect(await names(user, "*")).toEqual(["here"]);
  await expect(names(user, "proj_other")).rejects.toMatchObject({ code: "policy.denied" });

  const unrelated: Caller = { ...user, scopes: ["keys:write", "audit:read"] };
  await expect(keys.revoke(unrelated, there.key.id)).rejects.toMatchObject({ code: "key.not_found" });
  for (const id of [there.key.id, foreign.key.id]) {
    await expect(keys.revoke(admin, id)).rejects.toMatchObject({ code: "key.not_found" });
  }
  await expect(keys.revoke(admin, foreign.key.id, { project: "*" })).rejects.toMatchObject({
    code: "key.not_found",
  });
  await keys.revoke(unrelated, here.key.id);
  await keys.revoke(admin, there.key.id, { project: "*" });
  await expect(keys.authenticate(there.token)).rejects.toMatchObject({ code: "auth.invalid" });
  // The audit entry belongs to the project of the key.
  const other_project = { ...admin, scope: { org_id: "org_local", project_id: "proj_other" } };
  const [entry] = (await audit.list(other_project, { action: "key.revoke" }, { limit: 1 })).items;
  expect(entry).toMatchObject({ subject: there.key.id, actor: "admin" });
});

test("limits a delegated token to its running call and rejects it afterwards", async () => {
  const fixture = await createTestKernel();
  const scopes = ["tools:invoke"];
  const content = manifest([
    toolExport("parent", { permissions: { gateway_api_scopes: scopes } }, { effect_class: "unknown" }),
    toolExport("reader", { permissions: { gateway_api_scopes: scopes } }),
    toolExport("child", { permissions: { network: "egress", gateway_api_scopes: scopes } }),
    toolExport("writer", {}, { effect_class: "unknown" }),
  ]);
  await fixture.bind(content);
  for (const export_id of ["reader", "child", "writer"]) {
    await fixture.kernel.bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      export_id,
    });
  }
  await fixture.kernel.policy.patch(admin, "org", { tolerance: { background: "full" } });
  const { keys, invocations } = fixture.kernel;
  const tokens: string[] = [];
  const write_results: unknown[] = [];
  fixture.runner.script = async ({ request }) => {
    if (request.export_id === "child" || request.export_id === "writer") return ok();
    const token = request.context.gateway.delegation_token!;
    tokens.push(token);
    const caller = await keys.authenticate(token);
    expect(caller).toMatchObject({ actor: request.invocation_id, scope, admin: false });
    const child = await (await invocations.invoke(caller, { export_id: "child" })).settled;
    expect(child).toMatchObject({ status: "succeeded", requested_by: request.invocation_id });
    // The grant is never wider than the parent's grant, which allows no network.
    expect(child.grant).toMatchObject({ network: "none", gateway_api_scopes: ["tools:invoke"] });
    expect((await invocations.get(caller, child.id)).id).toBe(child.id);
    await expect(invocations.get(caller, request.invocation_id)).rejects.toMatchObject({
      code: "invocation.not_found",
    });
    const write = await invocations.invoke(caller, { export_id: "writer" }).then(
      async (ticket) => (await ticket.settled).status,
      (error: { code: string }) => error.code,
    );
    write_results.push(write);
    await expect(fixture.kernel.secrets.put(caller, "x", "y")).rejects.toMatchObject({
      code: "policy.denied",
    });
    // A jump of the wall clock ends neither the call nor its token.
    fixture.clock.wall_offset += 3_600_000;
    expect((await keys.authenticate(token)).actor).toBe(request.invocation_id);
    return ok();
  };
  for (const export_id of ["parent", "reader"]) {
    const done = await fixture.call({ export_id });
    expect(done, JSON.stringify(done.error)).toMatchObject({ status: "succeeded" });
  }
  // A read_only call cannot write through another tool.
  expect(write_results).toEqual(["succeeded", "policy.denied"]);
  for (const token of tokens) {
    await expect(keys.authenticate(token)).rejects.toMatchObject({ code: "auth.invalid" });
  }
});

test("rejects revoking a key with more rights and creating one that expires later", async () => {
  const fixture = await createTestKernel();
  const { keys } = fixture.kernel;
  const base = { name: "k", role: "user" as const, scopes: ["keys:write" as const] };
  const wide = await keys.create(admin, { ...base, scopes: ["admin"] });
  const owner = await keys.create(admin, { ...base, role: "owner" });
  const peer = await keys.create(admin, base);
  const expires_at = new Date(fixture.clock.now() + 60_000).toISOString();
  const short = await keys.create(admin, { ...base, expires_at });
  const caller = await keys.authenticate(short.token);
  for (const { key } of [wide, owner]) {
    await expect(keys.revoke(caller, key.id)).rejects.toMatchObject({ code: "policy.denied" });
  }
  await keys.authenticate(wide.token);
  await expect(keys.revoke(caller, "key_nothing")).rejects.toMatchObject({ code: "key.not_found" });
  const later = new Date(fixture.clock.now() + 120_000).toISOString();
  await expect(keys.create(caller, { ...base, expires_at: later })).rejects.toMatchObject({
    code: "policy.denied",
  });
  expect((await keys.create(caller, base)).key.expires_at).toBe(expires_at);
  await keys.revoke(caller, peer.key.id);
  await keys.revoke(caller, short.key.id);
  await expect(keys.authenticate(short.token)).rejects.toMatchObject({ code: "auth.invalid" });
});

test("refuses and records a recursive call beyond the maximum depth", async () => {
  const fixture = await createTestKernel({ host: { max_depth: 3 } });
  await fixture.bind(
    manifest([toolExport("again", { permissions: { gateway_api_scopes: ["tools:invoke"] } })]),
  );
  const { keys, invocations } = fixture.kernel;
  const refused: { code: string; details: { rule: string; invocation_id: string } }[] = [];
  fixture.runner.script = async ({ request }) => {
    const caller = await keys.authenticate(request.context.gateway.delegation_token!);
    await invocations.invoke(caller, { export_id: "again" }).then(
      (ticket) => ticket.settled,
      (error) => refused.push(error),
    );
    return ok();
  };
  expect((await fixture.call({ export_id: "again" })).status).toBe("succeeded");
  // The first call and three nested ones.
  expect(fixture.runner.requests).toHaveLength(4);
  expect(refused).toMatchObject([{ code: "policy.denied", details: { rule: "depth" } }]);
  const row = await fixture.store.invocations.get(scope, refused[0]!.details.invocation_id);
  expect(row).toMatchObject({ status: "failed", error: { code: "policy.denied" }, depth: 4 });
});
