/**
 * The parts that an approval covers besides the arguments (approval.digest): after a change the call needs a new
 * approval.
 */
import type { Approval, Json } from "@backplane/contract";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import {
  admin,
  createTestKernel,
  type TestKernel,
  until,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { toolPlugin } from "@backplane/test-kit/kernel/tool-plugin";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const deployManifest = (more: object = {}) =>
  manifest([
    toolExport(
      "deploy",
      {
        permissions: {
          network: "egress",
          allowed_domains: ["api.example.com", "cdn.example.com"],
          secret_slots: ["token"],
        },
        ...more,
      },
      { effect_class: "non_idempotent_write", requires_approval: true },
    ),
  ]);

async function createDeployKernel(options: Parameters<typeof createTestKernel>[0] = {}, more: object = {}) {
  const fixture = await createTestKernel(options);
  await fixture.kernel.secrets.put(admin, "token", "hunter2-first");
  const { binding_id } = await fixture.bind(deployManifest(more), {
    config: { region: "north", size: 1 },
    secrets: { token: "secret://org_local/token" },
    policy: { allowed_domains: ["api.example.com", "cdn.example.com"] },
  });
  return { fixture, binding_id };
}

const callDeploy = (fixture: TestKernel, body: object = {}) =>
  fixture.kernel.invocations.invoke(user, { export_id: "deploy", input: { tag: "v1" }, ...body });

const answer = (fixture: TestKernel, id: string) =>
  fixture.kernel.approvals.answer(admin, id, { response: "approve" });

async function waitForNextApproval(fixture: TestKernel, previous_id: string): Promise<Approval> {
  const pending = async () =>
    (await fixture.kernel.approvals.list(admin, { status: "pending" }, { limit: 5 })).items;
  await until(async () => (await pending()).some(({ id }) => id !== previous_id));
  return (await pending()).find(({ id }) => id !== previous_id)!;
}

type Change = (fixture: TestKernel, binding_id: string) => Promise<unknown>;
const CHANGES: [label: string, parts: string[], change: Change][] = [
  [
    "the config",
    ["config.region", "config.zone"],
    (fixture, id) =>
      fixture.kernel.bindings.patch(
        admin,
        id,
        { config: { size: 1, region: "south", zone: "b" } },
        undefined,
      ),
  ],
  ["a secret", ["secret.token"], (fixture) => fixture.kernel.secrets.put(admin, "token", "hunter2-second")],
  [
    "a secret that was removed and stored again",
    ["secret.token"],
    async (fixture, id) => {
      await fixture.kernel.bindings.patch(admin, id, { secrets: {} }, undefined);
      await fixture.kernel.secrets.remove(admin, "token");
      await fixture.kernel.secrets.put(admin, "token", "hunter2-second");
      const secrets = { token: "secret://org_local/token" };
      await fixture.kernel.bindings.patch(admin, id, { secrets }, undefined);
    },
  ],
  [
    "the grant and the destination",
    ["destination", "grant.allowed_domains"],
    (fixture, id) =>
      fixture.kernel.bindings.patch(
        admin,
        id,
        { policy: { allowed_domains: ["api.example.com"] } },
        undefined,
      ),
  ],
  [
    "the package",
    ["package_digest", "package_version"],
    async (fixture, id) => {
      const next = { ...deployManifest(), version: "0.2.0" };
      await fixture.kernel.packages.install(admin, fixture.importer.add(next));
      await fixture.kernel.bindings.patch(admin, id, { package_version: "0.2.0" }, undefined);
    },
  ],
];

for (const [label, parts, change] of CHANGES) {
  verifies(
    "approval.digest",
    `does not run a call on an approval requested before ${label} changed, and asks again with the list of changed parts`,
    async () => {
      const { fixture, binding_id } = await createDeployKernel();
      const ticket = await callDeploy(fixture);
      const first = ticket.invocation.approval_id!;
      await change(fixture, binding_id);
      await answer(fixture, first);
      const next_approval = await waitForNextApproval(fixture, first);
      expect(fixture.runner.requests).toHaveLength(0);
      expect(next_approval).toMatchObject({ replaces: first, changed: parts, invocation_id: ticket.id });
      const next_approval_text = JSON.stringify(next_approval);
      for (const value of ["hunter2", "south", "north"]) expect(next_approval_text).not.toContain(value);
      expect(await fixture.kernel.invocations.get(admin, ticket.id)).toMatchObject({
        status: "waiting_approval",
        approval_id: next_approval.id,
      });
      await answer(fixture, next_approval.id);
      const done = await ticket.settled;
      expect(done.status).toBe("succeeded");
      const [request] = fixture.runner.requests;
      const { binding } = (await fixture.store.bindings.get(user.scope, binding_id))!;
      expect(request!.context.config).toEqual(binding.config);
      expect(request!.package.version).toBe(binding.package_version);
      expect(done).toMatchObject({ approval_id: next_approval.id, package_version: binding.package_version });
    },
  );
}

verifies(
  "approval.digest",
  "runs an approved call after its config was rewritten without a change",
  async () => {
    const { fixture, binding_id } = await createDeployKernel();
    const ticket = await callDeploy(fixture);
    await fixture.kernel.bindings.patch(
      admin,
      binding_id,
      { config: { size: 1, region: "north" } },
      undefined,
    );
    await answer(fixture, ticket.invocation.approval_id!);
    expect((await ticket.settled).status).toBe("succeeded");
  },
);

verifies(
  "approval.digest",
  "does not apply a session approval after the config of the binding changed",
  async () => {
    const { fixture, binding_id } = await createDeployKernel();
    const ticket = await callDeploy(fixture, { session_id: "s1" });
    await fixture.kernel.approvals.answer(admin, ticket.invocation.approval_id!, {
      response: "approve_for_session",
    });
    await ticket.settled;
    expect((await callDeploy(fixture, { session_id: "s1" })).invocation.approval_id).toBeNull();
    await fixture.kernel.bindings.patch(
      admin,
      binding_id,
      { config: { region: "south", size: 1 } },
      undefined,
    );
    expect((await callDeploy(fixture, { session_id: "s1" })).invocation.approval_id).not.toBeNull();
  },
);

verifies("approval.digest", "does not run an approved, queued call after a secret was rotated", async () => {
  const { fixture } = await createDeployKernel({}, { max_concurrency: 1 });
  let release = () => {};
  fixture.runner.script = () => new Promise((resolve) => (release = () => resolve(ok())));
  const [first, second] = [await callDeploy(fixture), await callDeploy(fixture)];
  await answer(fixture, first.invocation.approval_id!);
  await until(() => fixture.runner.running === 1);
  await answer(fixture, second.invocation.approval_id!);
  await until(async () => (await fixture.kernel.health()).invocations.queued === 1);
  await fixture.kernel.secrets.put(admin, "token", "hunter2-second");
  await new Promise((resolve) => setTimeout(resolve, 300));
  release();
  await first.settled;
  expect(await second.settled).toMatchObject({
    status: "failed",
    error: { code: "approval.changed", details: { changed: ["secret.token"] } },
  });
  expect(fixture.runner.requests).toHaveLength(1);
});

verifies(
  "approval.digest",
  "does not run an approved call again after a secret was rotated between two attempts while the queue is full",
  async () => {
    const host = { queue_per_binding: 0, retry: { max_attempts: 2, base_ms: 300 } };
    const fixture = await createTestKernel({ host });
    await fixture.kernel.secrets.put(admin, "token", "hunter2-first");
    const item = toolExport(
      "put",
      {
        permissions: { network: "none", secret_slots: ["token"] },
        max_concurrency: 1,
      },
      { effect_class: "idempotent_write", requires_approval: true },
    );
    await fixture.bind(manifest([item]), { secrets: { token: "secret://org_local/token" } });
    fixture.runner.script = async () => {
      await fixture.kernel.secrets.put(admin, "token", "hunter2-second");
      return ended("retryable_failure", "plugin_retryable");
    };
    const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "put", input: {} });
    await answer(fixture, ticket.invocation.approval_id!);
    expect(await ticket.settled).toMatchObject({
      status: "failed",
      error: { code: "approval.changed", details: { changed: ["secret.token"] } },
    });
    expect(fixture.runner.requests).toHaveLength(1);
  },
);

test("asks for approval after a restart if the config changed since a durable approval was requested", async () => {
  const options = { host: { approval_timeout_ms: 3_600_000 } };
  const { fixture: first, binding_id } = await createDeployKernel(options);
  const ticket = await callDeploy(first);
  const first_approval_id = ticket.invocation.approval_id!;
  await first.kernel.bindings.patch(admin, binding_id, { config: { region: "south", size: 1 } }, undefined);
  await first.store.approvals.resolve(
    first_approval_id,
    {
      status: "approved",
      response: "approve",
      feedback: null,
      answered_by: "admin",
      resolved_at: new Date().toISOString(),
    },
    {},
  );
  await first.crash();
  const second = await createTestKernel({ ...options, file: first.file });
  const next_approval = await waitForNextApproval(second, first_approval_id);
  expect(next_approval).toMatchObject({ replaces: first_approval_id, changed: ["config.region"] });
  await answer(second, next_approval.id);
  await until(async () => (await second.kernel.invocations.get(admin, ticket.id)).status === "succeeded");
});

const createApprovalTool = (run: () => void) =>
  toolPlugin("sender", {
    name: "send",
    description: "Sends",
    parameters: { type: "object" },
    requires_approval: true,
    async run() {
      run();
      return { ok: true, brief: "sent", display: { kind: "text", text: "sent" } };
    },
  });

const PLUGIN_CHANGES: [label: string, parts: string[], values: Record<string, Json>][] = [
  ["a setting of its plugin", ["config.channel"], { "plugin.sender.channel": "#everyone" }],
  ["a credential of its plugin", ["config.api_key"], { "plugin.sender.api_key": "sk-second" }],
  [
    "the list of domains that its plugin may reach",
    ["config.allowed_domains"],
    { "plugin.sender.allowed_domains": ["b.example"] },
  ],
];

for (const [label, parts, values] of PLUGIN_CHANGES) {
  verifies(
    "approval.digest",
    `does not run a kernel plugin's tool on an approval requested before ${label} changed`,
    async () => {
      let ran = 0;
      const fixture = await createTestKernel({ plugins: [createApprovalTool(() => ran++)] });
      await fixture.kernel.config.set(admin, {
        "plugin.sender.channel": "#ops",
        "plugin.sender.api_key": "sk-first",
      });
      const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "send", input: {} });
      const first = ticket.invocation.approval_id!;
      await fixture.kernel.config.set(admin, values);
      await answer(fixture, first);
      const next_approval = await waitForNextApproval(fixture, first);
      expect(ran).toBe(0);
      expect(next_approval).toMatchObject({ replaces: first, changed: parts });
      expect(JSON.stringify(next_approval)).not.toMatch(/sk-|everyone/);
      await answer(fixture, next_approval.id);
      expect((await ticket.settled).status).toBe("succeeded");
      expect(ran).toBe(1);
    },
  );
}

verifies(
  "approval.digest",
  "does not run a kernel plugin's tool on an approval requested before its code was replaced",
  async () => {
    let ran = 0;
    const fixture = await createTestKernel({ plugins: [createApprovalTool(() => ran++)] });
    const loader = fixture.deps.plugins!;
    const original = { ...loader };
    const reload = async (digest: string) => {
      loader.load = async (...args) => ({ ...(await original.load(...args)), digest });
      await fixture.kernel.plugins.reload(admin, "sender");
    };
    await reload("sha256:first");
    const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "send", input: {} });
    const first = ticket.invocation.approval_id!;
    await reload("sha256:second");
    await answer(fixture, first);
    const next_approval = await waitForNextApproval(fixture, first);
    expect(next_approval).toMatchObject({ replaces: first, changed: ["package_digest"] });
    expect(ran).toBe(0);
    // Loading the same code again changes nothing.
    await reload("sha256:second");
    await answer(fixture, next_approval.id);
    expect((await ticket.settled).status).toBe("succeeded");
  },
);
