import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

const DEVKIT = manifest([
  toolExport("search", { max_concurrency: 1, permissions: { network: "egress", secret_slots: ["token"] } }),
  toolExport("count", { config_schema: "config.json", permissions: { filesystem: "scratch" } }),
  hookExport("notify", ["run.completed"]),
]);
const SCHEMAS = { "config.json": { type: "object", required: ["region"] } };

test("binds every tool of a package together, with one config and one set of slots", async () => {
  const fixture = await createTestKernel();
  await expect(fixture.bind(DEVKIT, { export_id: "*" }, SCHEMAS)).rejects.toMatchObject({
    code: "binding.invalid",
    message: expect.stringContaining("region"),
  });
  const { kernel } = fixture;
  await kernel.secrets.put(admin, "token", "0123456789");
  const whole_package = { package_id: "acme/devkit", package_version: "0.1.0", export_id: "*" };
  const config = { region: "eu" };
  const inactive = await kernel.bindings.create(admin, { ...whole_package, config });
  expect(inactive).toMatchObject({ status: "inactive", unbound_slots: ["token"] });
  const secrets = { token: "secret://org_local/token" };
  const { binding_id } = await kernel.bindings.patch(admin, inactive.binding_id, { secrets }, undefined);
  const exports = await kernel.exports.discover(user, "tool");
  expect(exports.map((item) => [item.export_id, item.binding_id])).toEqual([
    ["count", binding_id],
    ["search", binding_id],
  ]);
  expect(await kernel.exports.discover(user, "hook")).toEqual([]);
  // Each tool gets its own permissions and not those of the other tools.
  const count = await fixture.call({ export_id: "count" });
  expect(count.grant).toMatchObject({ network: "none", filesystem: "scratch", secret_slots: [] });
  const search = await fixture.call({ binding_id, export_id: "search" });
  expect(search.grant).toMatchObject({ filesystem: "none", secret_slots: ["token"] });
  expect(await kernel.bindings.validate(admin, binding_id)).toMatchObject({
    valid: true,
    requested: { network: "egress", filesystem: "scratch", secret_slots: ["token"] },
  });
});

test("prefers a binding of one export to a binding of its whole package", async () => {
  const fixture = await createTestKernel();
  const content = manifest([toolExport("search"), toolExport("count")]);
  const whole = await fixture.bind(content, { export_id: "*" });
  const single = await fixture.bind(content, { export_id: "search" });
  expect((await fixture.call({ export_id: "search" })).binding_id).toBe(single.binding_id);
  expect((await fixture.call({ export_id: "count" })).binding_id).toBe(whole.binding_id);
});

test("refuses to bind a package without tools as a whole", async () => {
  const fixture = await createTestKernel();
  const bound = fixture.bind(manifest([hookExport("notify", ["run.completed"])]), { export_id: "*" });
  await expect(bound).rejects.toMatchObject({ code: "binding.invalid" });
});
