/**
 * Calls that wait, queue, retry or were delegated: none starts after its authority was revoked, and the record states
 * why.
 */

import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { removalManifest } from "../approval/removal-call.ts";
import { createRevocableKey } from "./revocable-key.ts";

const never = () => new Promise<never>(() => {});
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

verifies("sec.revocation", "cancels a pending approval when its key is revoked and records why", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(removalManifest);
  const key = await createRevocableKey(fixture);
  const ticket = await fixture.kernel.invocations.invoke(key.caller, { export_id: "rm" });
  await key.revoke();
  const ended = await ticket.settled;
  expect(ended).toMatchObject({
    status: "failed",
    error: { code: "authority.key_revoked", details: { key_id: key.id } },
  });
  const approval = await fixture.kernel.approvals.get(admin, ended.approval_id!);
  expect(approval).toMatchObject({ status: "cancelled", answered_by: null });
  expect(approval.feedback).toContain(key.id);
  const trail = (await fixture.kernel.audit.list(admin, { action: "approval.cancelled" }, { limit: 5 }))
    .items;
  expect(trail).toMatchObject([
    { subject: approval.id, details: { why: "authority.key_revoked", invocation_id: ended.id } },
  ]);
  expect(fixture.runner.requests).toHaveLength(0);
});

verifies(
  "sec.revocation",
  "runs nothing when an approval is answered right after the revocation",
  async () => {
    const fixture = await createTestKernel();
    await fixture.bind(removalManifest);
    const key = await createRevocableKey(fixture);
    const ticket = await fixture.kernel.invocations.invoke(key.caller, { export_id: "rm" });
    const approval_id = ticket.invocation.approval_id!;
    const [, answer] = await Promise.allSettled([
      key.revoke(),
      (async () => {
        await until(async () => (await fixture.store.keys.get("org_local", key.id))!.revoked_at !== null);
        return await fixture.kernel.approvals.answer(admin, approval_id, { response: "approve" });
      })(),
    ]);
    expect(answer).toMatchObject({ status: "rejected", reason: { code: "authority.key_revoked" } });
    expect((await ticket.settled).error?.code).toBe("authority.key_revoked");
    expect(fixture.runner.requests).toHaveLength(0);
  },
);

verifies(
  "sec.revocation",
  "rejects answers from an approver whose key was revoked or whose role is disabled",
  async () => {
    const fixture = await createTestKernel();
    await fixture.bind(removalManifest);
    const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "rm" });
    const approver = await createRevocableKey(fixture, { role: "admin", scopes: ["approvals:answer"] });
    const approval_id = ticket.invocation.approval_id!;
    const answer = () =>
      fixture.kernel.approvals.answer(approver.caller, approval_id, { response: "approve" });
    await fixture.kernel.policy.patch(admin, "org", { roles: { admin: { disabled: true } } });
    await expect(answer()).rejects.toMatchObject({ code: "authority.role_disabled" });
    await fixture.kernel.policy.patch(admin, "org", { roles: null });
    await approver.revoke();
    await expect(answer()).rejects.toMatchObject({ code: "authority.key_revoked" });
    expect(fixture.runner.requests).toHaveLength(0);
  },
);

const REVOCATIONS = [
  ["key", "key was revoked", "authority.key_revoked"],
  ["binding", "binding was disabled", "binding.not_active"],
  ["project", "project was archived", "authority.project_archived"],
] as const;

for (const [revoked_part, label, code] of REVOCATIONS) {
  verifies("sec.revocation", `cancels queued calls after their ${label}`, async () => {
    const fixture = await createTestKernel();
    const binding = await fixture.bind(manifest([toolExport("narrow", { max_concurrency: 1 })]));
    const key = await createRevocableKey(fixture);
    fixture.runner.script = never;
    fixture.runner.honors_cancel = false;
    await fixture.kernel.invocations.invoke(admin, { export_id: "narrow", timeout_ms: 60_000 });
    await until(() => fixture.runner.running === 1);
    const queued_calls = await Promise.all(
      [1, 2, 3].map(() =>
        fixture.kernel.invocations.invoke(key.caller, { export_id: "narrow", timeout_ms: 60_000 }),
      ),
    );
    if (revoked_part === "key") await key.revoke();
    else if (revoked_part === "project")
      await fixture.kernel.policy.patch(admin, "project", { archived: true });
    else await fixture.kernel.bindings.patch(admin, binding.binding_id, { status: "disabled" }, undefined);
    for (const { settled } of queued_calls) {
      expect(await settled).toMatchObject({ status: "failed", error: { code } });
    }
    expect(fixture.runner.requests).toHaveLength(1);
  });

  verifies("sec.revocation", `does not retry a failed call after its ${label}`, async () => {
    const fixture = await createTestKernel({ host: { retry: { max_attempts: 5, base_ms: 600 } } });
    const binding = await fixture.bind(manifest([toolExport("flaky")]));
    const key = await createRevocableKey(fixture);
    fixture.runner.script = () => ended("retryable_failure", "plugin_retryable");
    const { settled } = await fixture.kernel.invocations.invoke(key.caller, { export_id: "flaky" });
    await until(() => fixture.runner.requests.length === 1);
    if (revoked_part === "key") await key.revoke();
    else if (revoked_part === "project")
      await fixture.kernel.policy.patch(admin, "project", { archived: true });
    else await fixture.kernel.bindings.patch(admin, binding.binding_id, { status: "disabled" }, undefined);
    expect(await settled).toMatchObject({ status: "failed", error: { code } });
    expect(fixture.runner.requests).toHaveLength(1);
  });
}

verifies(
  "sec.revocation",
  "cancels a running call when its key is revoked and rejects its delegated token",
  async () => {
    const fixture = await createTestKernel();
    const scopes = { permissions: { gateway_api_scopes: ["tools:invoke"] } };
    await fixture.bind(manifest([toolExport("outer", scopes), toolExport("inner")]));
    await fixture.kernel.bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      export_id: "inner",
    });
    const key = await createRevocableKey(fixture);
    let token = "";
    fixture.runner.script = ({ request }) => {
      token = request.context.gateway.delegation_token!;
      return never();
    };
    const outer = await fixture.kernel.invocations.invoke(key.caller, {
      export_id: "outer",
      timeout_ms: 60_000,
    });
    await until(() => token !== "");
    const child = await fixture.kernel.keys.authenticate(token);
    await key.revoke();
    await expect(fixture.kernel.invocations.invoke(child, { export_id: "inner" })).rejects.toMatchObject({
      code: "authority.key_revoked",
    });
    await expect(fixture.kernel.keys.authenticate(token)).rejects.toMatchObject({ code: "auth.invalid" });
    expect(await outer.settled).toMatchObject({ status: "failed", error: { code: "authority.key_revoked" } });
    expect(fixture.runner.requests).toHaveLength(1);
  },
);

verifies(
  "sec.revocation",
  "rejects nested calls from a running call once its binding is disabled",
  async () => {
    const fixture = await createTestKernel();
    const scopes = { permissions: { gateway_api_scopes: ["tools:invoke"] } };
    const outer = await fixture.bind(manifest([toolExport("outer", scopes), toolExport("inner")]));
    await fixture.kernel.bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      export_id: "inner",
    });
    const results: string[] = [];
    fixture.runner.script = async ({ request }) => {
      if (request.export_id === "inner") return ok();
      const caller = await fixture.kernel.keys.authenticate(request.context.gateway.delegation_token!);
      const call = () =>
        fixture.kernel.invocations.invoke(caller, { export_id: "inner" }).then(
          async ({ settled }) => void results.push((await settled).status),
          (error: { code: string }) => void results.push(error.code),
        );
      await call();
      await fixture.kernel.bindings.patch(admin, outer.binding_id, { status: "disabled" }, undefined);
      await call();
      return ok();
    };
    await fixture.call({ export_id: "outer" });
    expect(results).toEqual(["succeeded", "binding.not_active"]);
  },
);

test("does not start a queued call after the policy denied its tool to the role", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("narrow", { max_concurrency: 1 })]));
  let release = () => {};
  fixture.runner.script = () => new Promise((resolve) => (release = () => resolve(ok())));
  const first = await fixture.kernel.invocations.invoke(admin, { export_id: "narrow" });
  await until(() => fixture.runner.running === 1);
  const { settled } = await fixture.kernel.invocations.invoke(user, { export_id: "narrow" });
  await fixture.kernel.policy.patch(admin, "org", { roles: { user: { deny: { tools: ["narrow"] } } } });
  await pause(400);
  release();
  await first.settled;
  expect(await settled).toMatchObject({ error: { code: "policy.denied", details: { rule: "role" } } });
  expect(fixture.runner.requests).toHaveLength(1);
});

verifies(
  "sec.revocation",
  "stops the deliveries to the hooks of a project that is archived, and records the refusal",
  async () => {
    const fixture = await createTestKernel({
      host: { deliveries: { concurrency: 4, per_binding: 2, max_attempts: 10, base_ms: 30, max_ms: 60 } },
    });
    const bound = await fixture.bind(
      manifest([hookExport("notify", ["binding.changed"]), toolExport("read")]),
    );
    fixture.runner.script = () => ended("failed", "crashed");
    await fixture.kernel.bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      export_id: "read",
    });
    await until(() => fixture.runner.requests.length >= 2);
    await fixture.kernel.policy.patch(admin, "project", { archived: true });
    await until(() => fixture.runner.running === 0);
    const request_count = fixture.runner.requests.length;
    await pause(400);
    expect(fixture.runner.requests.length - request_count).toBeLessThanOrEqual(1);
    const refused = (
      await fixture.kernel.invocations.list(admin, { binding_id: bound.binding_id }, { limit: 50 })
    ).items;
    expect(refused.some(({ error }) => error?.code === "authority.project_archived")).toBe(true);
  },
);

verifies(
  "sec.revocation",
  "does not run a call with a durable approval after a restart if its key was revoked in the meantime",
  async () => {
    const options = { host: { approval_timeout_ms: 3_600_000 } };
    const first = await createTestKernel(options);
    await first.bind(removalManifest);
    const key = await createRevocableKey(first);
    const { id, invocation } = await first.kernel.invocations.invoke(key.caller, { export_id: "rm" });
    await first.store.approvals.resolve(
      invocation.approval_id!,
      {
        status: "approved",
        response: "approve",
        feedback: null,
        answered_by: "admin",
        resolved_at: new Date().toISOString(),
      },
      {},
    );
    await key.revoke();
    await first.crash();
    const second = await createTestKernel({ ...options, file: first.file });
    await until(async () => (await second.kernel.invocations.get(admin, id)).status === "failed");
    expect(await second.kernel.invocations.get(admin, id)).toMatchObject({
      error: { code: "authority.key_revoked" },
    });
    expect(second.runner.requests).toHaveLength(0);
  },
);

verifies(
  "sec.revocation",
  "starts no call from fifty workers more than a second after their key was revoked",
  async () => {
    const fixture = await createTestKernel();
    await fixture.bind(manifest([toolExport("echo"), toolExport("narrow", { max_concurrency: 2 })]));
    await fixture.kernel.bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      export_id: "narrow",
    });
    const key = await createRevocableKey(fixture);
    const starts: number[] = [];
    fixture.runner.script = async () => {
      starts.push(performance.now());
      await pause(5);
      return ok();
    };
    let stop = false;
    const workers = Array.from({ length: 50 }, async (_, n) => {
      while (!stop)
        await fixture.call({ export_id: n % 2 === 0 ? "echo" : "narrow" }, key.caller).catch(() => pause(1));
    });
    await until(() => starts.length > 100);
    await key.revoke();
    const revoked = performance.now();
    await pause(1_500);
    stop = true;
    await Promise.all(workers);
    expect(starts.filter((at) => at > revoked + 1_000)).toEqual([]);
  },
);
