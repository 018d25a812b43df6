/** The catalog as clients see it. */

import { grantWith } from "@backplane/test-kit/grant-with";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, guest, user } from "@backplane/test-kit/kernel/test-kernel";
import { toolPlugin } from "@backplane/test-kit/kernel/tool-plugin";
import { expect, test } from "vitest";

const writer = toolPlugin("writer", {
  name: "write",
  description: "Writes.",
  parameters: { type: "object" },
  effect_class: "non_idempotent_write",
  requires_approval: true,
  run: () => ({ ok: true, brief: "done", display: { kind: "text", text: "done" } }),
});

test("lists tools of plugins and bound exports together, filtered by what the caller may call", async () => {
  const fixture = await createTestKernel({ plugins: [writer] });
  const { catalog } = fixture.kernel;
  const output = { type: "object", properties: { n: { type: "number" } } };
  const content = manifest([
    toolExport("read", { display_name: "Reader" }, { output_schema: "out.json" }),
    hookExport("heard", ["session.archived"]),
  ]);
  await fixture.bind(content, {}, { "out.json": output });
  await fixture.kernel.bindings.create(admin, {
    package_id: content.package_id,
    package_version: content.version,
    export_id: "heard",
  });
  const tools = await catalog.list(user);
  expect(
    tools.map(({ name, title, effect_class, requires_approval }) => [
      name,
      title,
      effect_class,
      requires_approval,
    ]),
  ).toEqual([
    ["read", "Reader", "read_only", false],
    ["write", null, "non_idempotent_write", true],
  ]);
  expect(tools[0]!.output_schema).toEqual(output);
  expect(await catalog.list(user)).toBe(tools);
  expect((await catalog.list(guest)).map(({ name }) => name)).toEqual(["read"]);
  const delegated = {
    ...user,
    delegation: {
      invocation_id: "inv_1",
      scopes: ["tools:invoke"] as const,
      grant: grantWith({ tools: ["read"] }),
    },
  };
  expect((await catalog.list(delegated)).map(({ name }) => name)).toEqual(["read"]);
  expect(await catalog.find(delegated, "write")).toBe(null);
  expect((await catalog.find(user, "write"))?.binding_id).toBe("bind_kernel_write");
  expect(await catalog.find(user, "heard")).toBe(null);
});

test("reports a changed binding with its org and a changed plugin without one, and lists the new tools immediately", async () => {
  const fixture = await createTestKernel({ plugins: [writer] });
  const { catalog, plugins, bindings } = fixture.kernel;
  const notified: (string | null)[] = [];
  const stop = catalog.onChanged((org_id) => notified.push(org_id));
  const names = async () => (await catalog.list(user)).map(({ name }) => name);
  expect(await names()).toEqual(["write"]);
  const { binding_id } = await fixture.bind(manifest([toolExport("read")]));
  expect([await names(), notified]).toEqual([["read", "write"], ["org_local"]]);
  await bindings.patch(admin, binding_id, { status: "disabled" }, undefined);
  expect([await names(), notified.length]).toEqual([["write"], 2]);
  await plugins.setEnabled(admin, "writer", false);
  expect(await names()).toEqual([]);
  expect(notified.slice(2)).toContain(null);
  const notified_count = notified.length;
  stop();
  await bindings.remove(admin, binding_id);
  expect(notified).toHaveLength(notified_count);
});
