import type { Caller } from "@backplane/ports";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, guest, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

test("lists the exports of the caller's scope with their schemas and isolation class", async () => {
  const fixture = await createTestKernel();
  const schemas = { "in.json": { type: "object" }, "config.json": { type: "object" } };
  const content = manifest([
    toolExport(
      "search",
      { display_name: "Search", config_schema: "config.json" },
      { input_schema: "in.json" },
    ),
    toolExport("off"),
    toolExport("waits", { permissions: { secret_slots: ["token"] } }),
    hookExport("notify", ["run.completed"]),
  ]);
  const search = await fixture.bind(content, { policy: { class: "worker" } }, schemas);
  for (const more of [
    { export_id: "off", rollout: { traffic_percent: 0 } },
    { export_id: "waits" },
    { export_id: "notify" },
  ]) {
    await fixture.kernel.bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      ...more,
    });
  }
  const discover = (caller: Caller, kind: "tool" | "hook") => fixture.kernel.exports.discover(caller, kind);
  const exports = await discover(user, "tool");
  expect(exports.map((item) => item.export_id)).toEqual(["search"]);
  expect(exports[0]).toMatchObject({
    kind: "tool",
    binding_id: search.binding_id,
    display_name: "Search",
    class: "worker",
    input_schema: { type: "object" },
    config_schema: { type: "object" },
    output_schema: null,
  });
  expect((await discover(user, "hook")).map((item) => item.export_id)).toEqual(["notify"]);
  expect(await discover({ ...user, scope: { ...scope, project_id: "proj_other" } }, "tool")).toEqual([]);
  // The org's binding is hidden while the project's own binding takes all traffic.
  const org = await fixture.kernel.bindings.create(admin, {
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "search",
    org_wide: true,
  });
  expect(await discover(user, "tool")).toHaveLength(1);
  await fixture.kernel.bindings.patch(
    admin,
    search.binding_id,
    { rollout: { traffic_percent: 40 } },
    undefined,
  );
  const both = (await discover(user, "tool")).map((item) => item.binding_id);
  expect(both.sort()).toEqual([search.binding_id, org.binding_id].sort());
});

test("lists only read_only exports for a guest", async () => {
  const fixture = await createTestKernel();
  const content = manifest([
    toolExport("read"),
    toolExport("write", {}, { effect_class: "idempotent_write" }),
  ]);
  await fixture.bind(content);
  await fixture.bind(content, { export_id: "write" });
  const discoverFor = async (caller: Caller) =>
    (await fixture.kernel.exports.discover(caller, "tool")).map((item) => item.export_id);
  expect(await discoverFor(user)).toEqual(["read", "write"]);
  expect(await discoverFor(guest)).toEqual(["read"]);
  await expect(fixture.call({ export_id: "write" }, guest)).rejects.toMatchObject({ code: "policy.denied" });
});
