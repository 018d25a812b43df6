import { grantWith } from "@backplane/test-kit/grant-with";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const hostToolManifest = () =>
  manifest([toolExport("host_open", {}, { target: "host" }), toolExport("plain", {}, { target: "sandbox" })]);

verifies(
  "tools.target",
  "refuses and records a call to a tool that runs on the host unless the admin has allowed it",
  async () => {
    const fixture = await createTestKernel();
    const binding = await fixture.bind(hostToolManifest(), { export_id: "*" });
    await expect(fixture.call({ export_id: "host_open" })).rejects.toMatchObject({
      code: "target.host_forbidden",
    });
    expect(fixture.runner.requests).toEqual([]);
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
    // The call has the class of its binding, so only the grant shows that the call was not isolated.
    const on_host = await fixture.call({ export_id: "host_open" });
    expect(on_host).toMatchObject({ class: "isolated", grant: { class: "isolated", host: true } });
    expect((await fixture.call({ export_id: "plain" })).grant).not.toHaveProperty("host");
    expect(fixture.runner.requests.map(({ export_id, grant }) => [export_id, grant.host])).toEqual([
      ["host_open", true],
      // A tool that does not need the host stays in the sandbox, although the host is allowed.
      ["plain", undefined],
    ]);
    // Other callers may change the other settings of such a binding.
    const other_setting = { host_target: true, timeout_ms: 1_000 };
    await fixture.kernel.bindings.patch(key, binding.binding_id, { policy: other_setting }, undefined);
  },
);

verifies("tools.target", "refuses a sandboxed plugin's call to a tool that runs on the host", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(hostToolManifest(), { export_id: "*", policy: { host_target: true } });
  const inside = grantWith({ gateway_api_scopes: ["tools:invoke"] });
  const delegated = (grant: typeof inside) => ({
    ...user,
    actor: "inv_parent",
    delegation: { invocation_id: "inv_parent", scopes: ["tools:invoke" as const], grant, depth: 1 },
  });
  await expect(fixture.call({ export_id: "host_open" }, delegated(inside) as never)).rejects.toMatchObject({
    code: "target.host_forbidden",
  });
  // A caller that runs on the host may call it, after the approval that its risk requires.
  const outside = delegated({ ...inside, host: true }) as never;
  const { invocation } = await fixture.kernel.invocations.invoke(outside, { export_id: "host_open" });
  expect([invocation.status, invocation.grant?.host]).toEqual(["waiting_approval", true]);
});

verifies(
  "tools.isolated-failure",
  "fails a call to a tool that could not be loaded, and reports the load error",
  async () => {
    const fixture = await createTestKernel();
    await fixture.bind(manifest([toolExport("broken", {}, { load_error: "tools/broken.ts: at import" })]));
    await expect(fixture.call({ export_id: "broken" })).rejects.toMatchObject({
      code: "tool.load_failed",
      message: "tools/broken.ts: at import",
    });
    expect(fixture.runner.requests).toEqual([]);
  },
);

verifies(
  "tools.isolated-failure",
  "does not offer a tool that could not be loaded, and lists it with its load error",
  async () => {
    const fixture = await createTestKernel();
    await fixture.bind(manifest([toolExport("broken", {}, { load_error: "tools/broken.ts: at import" })]));
    const { catalog } = fixture.kernel;
    expect((await catalog.list(user)).map(({ name }) => name)).toEqual([]);
    expect(await catalog.find(user, "broken")).toBeNull();
    const listed = await catalog.listEntries(user, { all: true });
    expect(listed.find(({ name }) => name === "broken")).toMatchObject({
      status: "hidden",
      reason: "it cannot run: tools/broken.ts: at import",
    });
  },
);
