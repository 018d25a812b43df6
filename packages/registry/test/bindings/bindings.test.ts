import { BindingSchema } from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { config, jira, schemas } from "./jira-package.ts";

test("warns of granted destinations that egress refuses until the operator allows them", async () => {
  const fixture = await createTestKernel({ host: { private_destinations: ["localhost:8000", "nas.lan:*"] } });
  const allowed_domains = ["localhost:8000", "localhost:5432", "10.0.0.5", "api.acme.test", "nas.lan:22"];
  const { binding_id } = await fixture.bind(
    manifest([toolExport("query", { permissions: { network: "egress" } })]),
    { policy: { allowed_domains } },
  );
  const report = await fixture.kernel.bindings.validate(user, binding_id);
  expect(report.valid).toBe(true);
  expect(report.warnings.map(({ message }) => message)).toEqual([
    '10.0.0.5 is an IP address, so connections to it are refused; the operator can add "10.0.0.5:PORT" to egress.allow_private in backplane.toml',
    'localhost:5432 is this machine, so connections to it are refused; the operator can add "localhost:5432" to egress.allow_private in backplane.toml',
  ]);
});

verifies("bind.record", "stores package, export, scope, config and policy of a new binding", async () => {
  const fixture = await createTestKernel();
  await fixture.kernel.secrets.put(admin, "jira_token", "s3cr3t-value");
  const policy = {
    timeout_ms: 5_000,
    approval: "never" as const,
    allowed_domains: ["acme.atlassian.net"],
    mounts: [{ source: "/srv/data", target: "/data", writable: false }],
    permissions: { filesystem: "none" as const },
    class: "isolated" as const,
  };
  const bound = await fixture.bind(
    jira,
    {
      config,
      secrets: { jira_token: "secret://org_local/jira_token" },
      rollout: { traffic_percent: 50 },
      policy,
    },
    schemas,
  );
  const read = await fixture.kernel.bindings.get(user, bound.binding_id);
  expect(BindingSchema.parse(read)).toEqual(read);
  expect(read).toMatchObject({
    binding_id: expect.stringMatching(/^bind_/),
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "jira_search",
    scope,
    config,
    secrets: { jira_token: "secret://org_local/jira_token" },
    status: "active",
    rollout: { traffic_percent: 50 },
    policy,
    generation: 1,
  });
  const off = await fixture.kernel.bindings.patch(admin, bound.binding_id, { status: "disabled" }, 1);
  expect(off).toMatchObject({ status: "disabled", generation: 2 });
  const bare = await fixture.kernel.bindings.patch(
    admin,
    bound.binding_id,
    { status: "active", secrets: {} },
    2,
  );
  expect(bare).toMatchObject({ status: "inactive", unbound_slots: ["jira_token"] });
});

verifies(
  "bind.config",
  "checks the config when a binding is created, patched or validated, and lists unbound slots",
  async () => {
    const fixture = await createTestKernel();
    await expect(fixture.bind(jira, { config: { max_results: 99 } }, schemas)).rejects.toMatchObject({
      code: "binding.invalid",
      details: { issues: expect.arrayContaining([expect.objectContaining({ path: "/config/max_results" })]) },
    });
    const bound = await fixture.bind(jira, { config }, schemas);
    expect(bound).toMatchObject({ status: "inactive", unbound_slots: ["jira_token"] });
    const id = bound.binding_id;
    await expect(fixture.call({ binding_id: id })).rejects.toMatchObject({
      code: "binding.not_active",
      details: { unbound: ["jira_token"] },
    });
    await expect(fixture.kernel.bindings.patch(admin, id, { config: {} }, undefined)).rejects.toMatchObject({
      code: "binding.invalid",
    });
    expect(await fixture.kernel.bindings.validate(user, id)).toMatchObject({
      valid: false,
      status: "inactive",
      unbound_slots: ["jira_token"],
      issues: [],
    });
    await fixture.kernel.secrets.put(admin, "jira_token", "s3cr3t-value");
    const secrets = { jira_token: "secret://org_local/jira_token" };
    const active = await fixture.kernel.bindings.patch(admin, id, { secrets }, undefined);
    expect(active).toMatchObject({ status: "active", unbound_slots: [] });
    expect(await fixture.kernel.bindings.validate(user, id)).toMatchObject({ valid: true, issues: [] });
    // Validate finds a row whose config no longer matches, as after a manual schema change.
    await fixture.store.bindings.update(
      { ...active, config: { base_url: 7 }, generation: 9 },
      active.generation,
      {},
    );
    expect(await fixture.kernel.bindings.validate(user, id)).toMatchObject({
      valid: false,
      issues: [{ path: "/config/base_url" }],
    });
  },
);

verifies(
  "bind.scope",
  "prefers a project's binding to the org's, and hides it from other projects and orgs",
  async () => {
    const fixture = await createTestKernel();
    const content = manifest([toolExport("echo")]);
    const org = await fixture.bind(content, { org_wide: true, policy: { timeout_ms: 1_111 } });
    const other_project: Caller = { ...user, scope: { org_id: "org_local", project_id: "proj_other" } };
    expect((await fixture.call({ export_id: "echo" })).binding_id).toBe(org.binding_id);
    const project_binding = await fixture.kernel.bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      export_id: "echo",
    });
    expect((await fixture.call({ export_id: "echo" })).binding_id).toBe(project_binding.binding_id);
    expect((await fixture.call({ export_id: "echo" }, other_project)).binding_id).toBe(org.binding_id);
    // A newer version in the org does not take the project's calls.
    const newer = await fixture.bind(manifest([toolExport("echo")], { version: "9.0.0" }), {
      org_wide: true,
    });
    expect((await fixture.call({ export_id: "echo" })).binding_id).toBe(project_binding.binding_id);
    expect((await fixture.call({ export_id: "echo" }, other_project)).binding_id).toBe(newer.binding_id);
    const invocation = await fixture.call({ export_id: "echo" });
    const other_org: Caller = { ...user, scope: { org_id: "org_far", project_id: "proj_default" } };
    const captureError = async (work: Promise<unknown>) =>
      await work.then(
        () => "found",
        (error: { code: string; message: string; details?: unknown }) => [
          error.code,
          error.message,
          error.details,
        ],
      );
    const { bindings, invocations } = fixture.kernel;
    for (const caller of [other_project, other_org]) {
      const requests = (id: string) => [bindings.get(caller, id), bindings.validate(caller, id)];
      const real = await Promise.all(requests(project_binding.binding_id).map(captureError));
      const missing = await Promise.all(requests("bind_00000000000000000000000000").map(captureError));
      expect(real).toEqual(missing);
      expect(real[0]).toEqual(["binding.not_found", "There is no such binding.", undefined]);
      expect(
        await captureError(invocations.invoke(caller, { binding_id: project_binding.binding_id })),
      ).toEqual(missing[0]);
      expect(await captureError(invocations.get(caller, invocation.id))).toEqual(
        await captureError(invocations.get(caller, "inv_00000000000000000000000000")),
      );
    }
  },
);

test("applies all concurrent patches without a generation and refuses a patch with a stale one", async () => {
  const fixture = await createTestKernel();
  const bound = await fixture.bind(manifest([toolExport("echo")]));
  const id = bound.binding_id;
  await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      fixture.kernel.bindings.patch(admin, id, { rollout: { traffic_percent: 50 + i } }, undefined),
    ),
  );
  expect((await fixture.kernel.bindings.get(user, id)).generation).toBe(21);
  await expect(fixture.kernel.bindings.patch(admin, id, { config: {} }, 1)).rejects.toMatchObject({
    code: "request.precondition",
  });
  expect(fixture.runner.retired.filter((item) => item === id)).toHaveLength(20);
});

test("validates the config again on an upgrade, and no longer finds a removed binding", async () => {
  const fixture = await createTestKernel();
  const bound = await fixture.bind(manifest([toolExport("echo")]), { config: { anything: 1 } });
  const strict = manifest([toolExport("echo", { config_schema: "c.json" })], { version: "0.2.0" });
  await fixture.kernel.packages.install(
    admin,
    fixture.importer.add(strict, { "c.json": { type: "object", additionalProperties: false } }),
  );
  const upgrade = { package_version: "0.2.0" };
  const id = bound.binding_id;
  await expect(fixture.kernel.bindings.patch(admin, id, upgrade, undefined)).rejects.toMatchObject({
    code: "binding.invalid",
  });
  const done = await fixture.kernel.bindings.patch(admin, id, { ...upgrade, config: {} }, undefined);
  expect(done.package_version).toBe("0.2.0");
  expect((await fixture.call({ export_id: "echo" })).package_version).toBe("0.2.0");
  await fixture.kernel.bindings.remove(admin, id);
  await expect(fixture.kernel.bindings.get(user, id)).rejects.toMatchObject({ code: "binding.not_found" });
  await expect(fixture.call({ export_id: "echo" })).rejects.toMatchObject({ code: "export.not_found" });
});

test("removes a binding only if it still has the given generation", async () => {
  const fixture = await createTestKernel();
  const { bindings } = fixture.kernel;
  const bound = await fixture.bind(manifest([toolExport("echo")]));
  const id = bound.binding_id;
  // The binding changes after it was read and before it is removed.
  const get = fixture.store.bindings.get.bind(fixture.store.bindings);
  fixture.store.bindings.get = async (...args) => {
    fixture.store.bindings.get = get;
    const read = await get(...args);
    await bindings.patch(admin, id, { config: { changed: true } }, undefined);
    return read;
  };
  await expect(bindings.remove(admin, id, 1)).rejects.toMatchObject({
    code: "request.precondition",
    details: { generation: 2 },
  });
  expect((await bindings.get(admin, id)).config).toEqual({ changed: true });
  await bindings.remove(admin, id, 2);
  await expect(bindings.remove(admin, id, 2)).rejects.toMatchObject({ code: "binding.not_found" });
});

test("keeps the fields that a patch does not contain, and a disabled binding disabled", async () => {
  const fixture = await createTestKernel();
  const { bindings } = fixture.kernel;
  const settings = { config, policy: { timeout_ms: 5_000 }, rollout: { traffic_percent: 50 } };
  const { binding_id } = await fixture.bind(jira, settings, schemas);
  const off = await bindings.patch(admin, binding_id, { status: "disabled" }, undefined);
  expect(off).toMatchObject({ ...settings, status: "disabled", unbound_slots: ["jira_token"] });
  const changed = await bindings.patch(admin, binding_id, { policy: { timeout_ms: 6_000 } }, undefined);
  expect(changed).toMatchObject({ ...settings, policy: { timeout_ms: 6_000 }, status: "disabled" });
  const on = await bindings.patch(admin, binding_id, { status: "active" }, undefined);
  expect(on.status).toBe("inactive");
});

test("ends the processes of a binding that is changed, upgraded or removed", async () => {
  const fixture = await createTestKernel();
  const { bindings, packages } = fixture.kernel;
  const { retired } = fixture.runner;
  const { binding_id } = await fixture.bind(manifest([toolExport("echo")]));
  expect(retired).toEqual([]);
  await bindings.patch(admin, binding_id, { config: { a: 1 } }, undefined);
  expect(retired.splice(0)).toEqual([binding_id]);
  await packages.install(admin, fixture.importer.add(manifest([toolExport("echo")], { version: "0.2.0" })));
  const upgrade = { package_id: "acme/devkit", package_version: "0.2.0" };
  await bindings.upgrade(admin, upgrade);
  expect(retired.splice(0)).toEqual([binding_id]);
  const { generation } = await bindings.get(admin, binding_id);
  const [same] = await bindings.upgrade(admin, upgrade);
  expect([same!.generation, retired.length]).toEqual([generation, 0]);
  await bindings.rollback(admin, binding_id);
  expect(retired.splice(0)).toEqual([binding_id]);
  await bindings.remove(admin, binding_id);
  expect(retired).toEqual([binding_id]);
});

test("refuses a hook that requires approval, which nobody could give", async () => {
  const fixture = await createTestKernel();
  const content = manifest([hookExport("notify", ["run.completed"])]);
  await expect(fixture.bind(content, { policy: { approval: "always" } })).rejects.toMatchObject({
    code: "binding.invalid",
    details: { issues: [{ path: "/policy/approval" }] },
  });
});
