/** Which binding, context and limits a call gets before it is admitted. */
import type { Json } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { grantWith } from "@backplane/test-kit/grant-with";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { describe, expect, test } from "vitest";

const plugin = (more: Partial<NonNullable<Caller["delegation"]>> = {}): Caller => ({
  ...user,
  delegation: { invocation_id: "inv_1", scopes: ["tools:invoke"], grant: grantWith(), ...more },
});

test("finds no binding if the names of a request contradict each other", async () => {
  const fixture = await createTestKernel();
  const { binding_id } = await fixture.bind(manifest([toolExport("echo"), toolExport("other")]));
  const missing = { code: "binding.not_found" };
  await expect(fixture.call({ binding_id, export_id: "other" })).rejects.toMatchObject(missing);
  await expect(fixture.call({ binding_id, package_id: "acme/other" })).rejects.toMatchObject(missing);
  const matching = { binding_id, export_id: "echo", package_id: "acme/devkit" };
  expect((await fixture.call(matching)).status).toBe("succeeded");
});

test("reports that the only binding of a tool is disabled", async () => {
  const fixture = await createTestKernel();
  const { binding_id } = await fixture.bind(manifest([toolExport("echo")]));
  await fixture.kernel.bindings.patch(admin, binding_id, { status: "disabled" }, undefined);
  await expect(fixture.call({ export_id: "echo" })).rejects.toMatchObject({
    code: "export.not_found",
    message: `echo is bound by ${binding_id}, which is disabled.`,
    fix: `backplane binding enable ${binding_id}`,
  });
});

describe("a call that a plugin makes", () => {
  const wild = manifest([toolExport("wild", {}, { effect_class: "unknown" })]);

  test("is a background call, even if the request specifies the context conversation", async () => {
    const fixture = await createTestKernel();
    await fixture.bind(wild);
    await fixture.kernel.policy.put(admin, "org", { tolerance: { conversation: "full" } });
    const { invocations, approvals } = fixture.kernel;
    const ticket = await invocations.invoke(plugin(), { export_id: "wild" }, { context: "conversation" });
    expect(ticket.status).toBe("waiting_approval");
    const [approval] = (await approvals.list(admin, {}, { limit: 1 })).items;
    expect(approval!.reason).toContain("background calls tolerate low");
  });

  test("stays headless in a headless run", async () => {
    const fixture = await createTestKernel();
    await fixture.bind(wild);
    const call = fixture.kernel.invocations.invoke(plugin(), { export_id: "wild" }, { context: "headless" });
    await expect(call).rejects.toMatchObject({ code: "policy.denied", details: { rule: "risk" } });
  });

  test("is one level deeper than its caller and belongs to the same delivery", async () => {
    const fixture = await createTestKernel({ host: { max_depth: 2 } });
    await fixture.bind(manifest([toolExport("echo")]));
    const caller = plugin({ depth: 1, delivery_id: "del_1" });
    const { id } = await fixture.call({ export_id: "echo" }, caller);
    expect(await fixture.store.invocations.get(scope, id)).toMatchObject({ depth: 2, delivery_id: "del_1" });
    await expect(fixture.call({ export_id: "echo" }, plugin({ depth: 2 }))).rejects.toMatchObject({
      details: { rule: "depth", depth: 3, max_depth: 2 },
    });
  });
});

test("narrows a grant by the policy's host level and by the caller", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(
    manifest([toolExport("t", { permissions: { network: "egress", filesystem: "scratch" } })]),
  );
  await fixture.kernel.policy.put(admin, "org", { host: { network: "none" } });
  const { grant } = await fixture.call({ export_id: "t", narrow: { filesystem: "none" } });
  expect(grant).toMatchObject({ network: "none", filesystem: "none" });
});

describe("the input", () => {
  test("of a hook must be an object", async () => {
    const fixture = await createTestKernel();
    await fixture.bind(manifest([hookExport("h", ["run.completed"]), toolExport("t")]));
    await fixture.bind(manifest([hookExport("h", ["run.completed"]), toolExport("t")]), { export_id: "t" });
    const call = (export_id: string, input: Json) => fixture.call({ export_id, input });
    await expect(call("h", "text")).rejects.toMatchObject({ code: "input.invalid" });
    await expect(call("h", [])).rejects.toMatchObject({ code: "input.invalid" });
    expect((await call("t", "text")).status).toBe("succeeded");
  });

  test("is limited in size", async () => {
    const fixture = await createTestKernel({ host: { input_bytes: 100 } });
    await fixture.bind(manifest([toolExport("t")]));
    const text = (length: number) => fixture.call({ export_id: "t", input: { text: "x".repeat(length) } });
    expect((await text(50)).status).toBe("succeeded");
    await expect(text(120)).rejects.toMatchObject({ code: "input.invalid" });
  });
});

test("calls a tool by its name in the plugin's own dialect", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("acme_read", {}, { tool_name: "read" })]));
  await fixture.call({ export_id: "acme_read" });
  expect(fixture.runner.requests[0]).toMatchObject({ export_id: "acme_read", native_name: "read" });
});
