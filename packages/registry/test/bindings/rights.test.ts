/** The right to bind: the host's admin, a caller of the whole org, a key of one project. */
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

const org_admin: Caller = { ...admin, actor: "key_org", admin: false, scope: { ...scope, project_id: null } };

test("lets only an admin lower the class, audits it, and lets any operator raise it", async () => {
  const fixture = await createTestKernel();
  const bound = await fixture.bind(manifest([toolExport("echo")]));
  const lower = { policy: { class: "worker" as const } };
  const id = bound.binding_id;
  await expect(fixture.kernel.bindings.patch(user, id, lower, undefined)).rejects.toMatchObject({
    code: "binding.class_forbidden",
  });
  const lowered = await fixture.kernel.bindings.patch(admin, id, lower, undefined);
  expect(lowered.class_lowered_by).toBe("admin");
  // A later change by a user keeps class_lowered_by; raising the class needs no admin.
  const patched = await fixture.kernel.bindings.patch(
    user,
    id,
    { rollout: { traffic_percent: 90 } },
    undefined,
  );
  expect(patched.class_lowered_by).toBe("admin");
  const audit = await fixture.kernel.audit.list(admin, { action: "binding.change" }, { limit: 10 });
  expect(audit.items.some((entry) => entry.details.class_lowered_by === "admin")).toBe(true);
  const raised = await fixture.kernel.bindings.patch(user, id, { policy: { class: "isolated" } }, undefined);
  expect(raised.class_lowered_by).toBeNull();
});

test("refuses the class inline to an admin of an org, and for a program even to the host's admin", async () => {
  const fixture = await createTestKernel();
  const { binding_id } = await fixture.bind(manifest([toolExport("echo")]));
  const inline = { policy: { class: "inline" as const } };
  const { bindings } = fixture.kernel;
  const denied = bindings.patch({ ...org_admin, admin: true }, binding_id, inline, undefined);
  await expect(denied).rejects.toMatchObject({ code: "binding.class_forbidden" });
  // A program cannot run in the gateway, so the class is refused when it is set and not at every call.
  await expect(bindings.patch(admin, binding_id, inline, undefined)).rejects.toMatchObject({
    code: "binding.invalid",
    message: expect.stringContaining("/policy/class: a vai.rpc.v1 plugin runs in its own process"),
  });
});

test("refuses an org-wide binding to a caller of one project", async () => {
  const fixture = await createTestKernel();
  const content = manifest([toolExport("echo")]);
  await fixture.kernel.packages.install(admin, fixture.importer.add(content));
  const body = { package_id: "acme/devkit", package_version: "0.1.0", export_id: "echo", org_wide: true };
  await expect(fixture.kernel.bindings.create(user, body)).rejects.toMatchObject({ code: "policy.denied" });
  const created = await fixture.kernel.bindings.create(org_admin, body);
  expect(created.scope).toEqual({ org_id: "org_local", project_id: null });
  await expect(
    fixture.kernel.bindings.patch(user, created.binding_id, { config: {} }, undefined),
  ).rejects.toMatchObject({ code: "policy.denied" });
});

test("does not let a key of one project mount folders or change org-wide bindings, whatever its scopes", async () => {
  const fixture = await createTestKernel();
  const reference = { package_id: "acme/devkit", package_version: "0.1.0", export_id: "echo" };
  const org = await fixture.bind(manifest([toolExport("echo")]), { org_wide: true });
  const { bindings, events, audit } = fixture.kernel;
  const project_admin: Caller = { ...admin, actor: "key_project" };
  const denied = { code: "policy.denied" };
  await expect(bindings.create(project_admin, { ...reference, org_wide: true })).rejects.toMatchObject(
    denied,
  );
  const disable = bindings.patch(project_admin, org.binding_id, { status: "disabled" }, undefined);
  await expect(disable).rejects.toMatchObject(denied);
  await expect(bindings.remove(project_admin, org.binding_id)).rejects.toMatchObject(denied);
  // The host's disk belongs to no org: only the admin token may mount it.
  const mounts = [{ source: "/", target: "/host", writable: true }];
  const creation = bindings.create(project_admin, { ...reference, policy: { mounts } });
  await expect(creation).rejects.toMatchObject(denied);
  const binding = await bindings.create(admin, { ...reference, policy: { mounts } });
  const patch = (policy: object) => bindings.patch(project_admin, binding.binding_id, { policy }, undefined);
  expect((await patch({ mounts, timeout_ms: 5_000 })).policy).toEqual({ mounts, timeout_ms: 5_000 });
  const wider = [...mounts, { source: "/etc", target: "/etc2", writable: false }];
  await expect(patch({ mounts: wider })).rejects.toMatchObject(denied);
  expect((await patch({})).policy).toEqual({});
  await expect(patch({ mounts })).rejects.toMatchObject(denied);
  // The event of an org-wide change goes to the project from which it was made.
  const stop = new AbortController();
  for await (const event of events.watch(user, 0, stop.signal))
    if (event.type === "binding.changed" && event.subject.id === org.binding_id) stop.abort();
  expect(stop.signal.aborted).toBe(true);
  const entries = (await audit.list(user, { action: "binding.create" }, { limit: 10 })).items;
  expect(entries.map((entry) => entry.subject)).toContain(org.binding_id);
}, 10_000);
