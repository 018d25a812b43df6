import { manifest, tool } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { noGrant } from "../../../../test/support/no-grant.ts";
import { verifies } from "../../../../test/support/verifies.ts";

const asking = () =>
  manifest([tool("host_open", {}, { target: "host" }), tool("plain", {}, { target: "sandbox" })]);

verifies(
  "tools.target",
  "without the admin's word a tool for the host is refused, and that is a record",
  async () => {
    const fixture = await createTestKernel();
    const binding = await fixture.bind(asking(), { export_id: "*" });
    await expect(fixture.call({ export_id: "host_open" })).rejects.toMatchObject({
      code: "target.host_forbidden",
    });
    expect(fixture.runner.orders).toEqual([]);
    const { items } = await fixture.kernel.invocations.list(user, {}, { limit: 10 });
    expect(items).toMatchObject([
      { export_id: "host_open", status: "failed", error: { code: "target.host_forbidden" } },
    ]);

    const policy = { host_target: true };
    await expect(
      fixture.kernel.bindings.patch(user, binding.binding_id, { policy }, undefined),
    ).rejects.toMatchObject({
      code: "policy.denied",
    });
    const key = { ...admin, actor: "key:ops" };
    await expect(
      fixture.kernel.bindings.patch(key, binding.binding_id, { policy }, undefined),
    ).rejects.toMatchObject({
      code: "policy.denied",
    });
    await fixture.kernel.bindings.patch(admin, binding.binding_id, { policy }, undefined);
    await fixture.call({ export_id: "host_open" });
    await fixture.call({ export_id: "plain" });
    expect(fixture.runner.orders.map(({ export_id, grant }) => [export_id, grant.host])).toEqual([
      ["host_open", true],
      // Allowed, and not asked for: it stays in the sandbox.
      ["plain", undefined],
    ]);
    // Others may change the rest of what the admin allowed, not another version of the package.
    const kept = { host_target: true, timeout_ms: 1_000 };
    await fixture.kernel.bindings.patch(key, binding.binding_id, { policy: kept }, undefined);
  },
);

verifies("tools.target", "a call from inside the sandbox does not lead out of it", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(asking(), { export_id: "*", policy: { host_target: true } });
  const inside = noGrant({ gateway_api_scopes: ["tools:invoke"] });
  const delegated = (grant: typeof inside) => ({
    ...user,
    actor: "inv_parent",
    delegation: { invocation_id: "inv_parent", scopes: ["tools:invoke" as const], grant, depth: 1 },
  });
  await expect(fixture.call({ export_id: "host_open" }, delegated(inside) as never)).rejects.toMatchObject({
    code: "target.host_forbidden",
  });
  // One that runs on the host itself may; a person is asked, as its risk wants it.
  const outside = delegated({ ...inside, host: true }) as never;
  const { invocation } = await fixture.kernel.invocations.invoke(outside, { export_id: "host_open" });
  expect([invocation.status, invocation.grant?.host]).toEqual(["waiting_approval", true]);
});

verifies(
  "tools.isolated-failure",
  "a tool that could not be loaded answers its error and never runs",
  async () => {
    const fixture = await createTestKernel();
    await fixture.bind(manifest([tool("broken", {}, { load_error: "tools/broken.ts: at import" })]));
    await expect(fixture.call({ export_id: "broken" })).rejects.toMatchObject({
      code: "tool.load_failed",
      message: "tools/broken.ts: at import",
    });
    expect(fixture.runner.orders).toEqual([]);
  },
);
