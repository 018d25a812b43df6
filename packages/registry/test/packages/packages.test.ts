import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, guest, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

test("installs the same bytes once, refuses different bytes under the same version, and keeps bound packages", async () => {
  const fixture = await createTestKernel();
  const { packages } = fixture.kernel;
  const content = manifest([toolExport("echo")]);
  const source = fixture.importer.add(content);
  await expect(packages.install(user, source)).rejects.toMatchObject({ code: "package.source_forbidden" });
  await expect(packages.install(guest, source)).rejects.toMatchObject({ code: "policy.denied" });
  const first = await packages.install(admin, source);
  expect(first).toMatchObject({
    created: true,
    package: { package_id: "acme/devkit", installed_by: "admin" },
  });
  expect(await packages.install(admin, source)).toEqual({ created: false, package: first.package });
  const other_content = fixture.importer.add(content, {}, "other bytes");
  await expect(packages.install(admin, other_content)).rejects.toMatchObject({ code: "package.conflict" });
  expect(fixture.importer.discarded).toHaveLength(1);
  const other_org: Caller = { ...admin, scope: { org_id: "org_far", project_id: null } };
  await expect(packages.get(other_org, first.package.id)).rejects.toMatchObject({
    code: "package.not_found",
  });
  const shared = await packages.install(other_org, source);
  const binding = await fixture.kernel.bindings.create(admin, {
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "echo",
  });
  await expect(packages.remove(admin, first.package.id)).rejects.toMatchObject({ code: "package.bound" });
  await fixture.kernel.bindings.remove(admin, binding.binding_id);
  await packages.remove(admin, first.package.id);
  // The other org still uses the bytes.
  expect(fixture.importer.discarded).not.toContain(first.package.digest);
  await packages.remove(other_org, shared.package.id);
  expect(fixture.importer.discarded).toContain(first.package.digest);
  expect((await packages.list(admin, { limit: 10 })).items).toEqual([]);
  const actions = (
    await fixture.kernel.audit.list(
      { ...admin, scope: { ...admin.scope, project_id: null } },
      {},
      { limit: 50 },
    )
  ).items;
  expect(actions.map((entry) => entry.action)).toContain("package.remove");
});

test("emits package.installed in the installing project, and hides bindings of other projects", async () => {
  const fixture = await createTestKernel();
  const { packages, bindings, events, audit } = fixture.kernel;
  const { package: installed } = await packages.install(
    admin,
    fixture.importer.add(manifest([toolExport("echo")])),
  );
  const stop = new AbortController();
  for await (const event of events.watch(user, 0, stop.signal)) {
    expect(event).toMatchObject({ type: "package.installed", subject: { id: installed.id } });
    stop.abort();
  }
  const entries = (await audit.list(admin, { action: "package.install" }, { limit: 10 })).items;
  expect(entries.map((entry) => entry.subject)).toEqual([installed.id]);
  const reference = { package_id: "acme/devkit", package_version: "0.1.0", export_id: "echo" };
  await bindings.create(admin, reference);
  const refused = (caller: Caller) => packages.remove(caller, installed.id).catch((error: unknown) => error);
  // A project may remove packages that it installed, but not those of the org's admin.
  expect(await refused(user)).toMatchObject({ code: "policy.denied" });
  const installer: Caller = {
    ...user,
    actor: "key_2",
    scopes: ["admin"],
    admin: true,
    scope: { ...user.scope, project_id: "proj_other" },
  };
  const next = fixture.importer.add(manifest([toolExport("echo")], { version: "0.2.0" }));
  const { package: second } = await packages.install(installer, next);
  const bound = await bindings.create(admin, { ...reference, package_version: "0.2.0" });
  const removing = await packages.remove(installer, second.id).catch((error: unknown) => error);
  expect(removing).toMatchObject({ code: "package.bound", details: { bindings: [] } });
  expect(JSON.stringify(removing)).not.toContain(bound.binding_id);
  await bindings.remove(admin, bound.binding_id);
  await packages.remove(installer, second.id);
  // The binding was upgraded and then removed, so a new one is created.
  const { binding_id } = await bindings.create(admin, reference);
  const org: Caller = { ...user, scope: { ...user.scope, project_id: null } };
  expect(await refused(org)).toMatchObject({ details: { bindings: [binding_id] } });
});

test("refuses to install a package whose protocol the gateway does not run", async () => {
  const fixture = await createTestKernel();
  fixture.runner.runs = (protocol) => protocol === "vai.rpc.v1";
  const runtime = { protocol: "mcp.stdio", entrypoint: ["node", "server.js"] };
  const source = fixture.importer.add(manifest([toolExport("echo")], { runtime }));
  await expect(fixture.kernel.packages.install(admin, source)).rejects.toMatchObject({
    code: "package.invalid",
    message: expect.stringContaining("does not run mcp.stdio packages"),
  });
  expect(fixture.importer.discarded).toHaveLength(1);
  expect((await fixture.kernel.packages.list(admin, { limit: 5 })).items).toEqual([]);
  await fixture.kernel.packages.install(admin, fixture.importer.add(manifest([toolExport("echo")])));
});
