/** If the process of a version on trial fails, its call runs again on the previous version where that is safe. */
import type { Binding, BindingUpgrade } from "@backplane/contract";
import type { RunOutcome } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok, type RunnerScript } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, type TestKernel, until } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const PACKAGE = "acme/devkit";
const OLD = "0.1.0";
const CANDIDATE = "0.2.0";
const CRASHED = ended("failed", "crashed", { stderr_tail: "segmentation fault" });

type Exports = Parameters<typeof manifest>[0];

interface TrialOptions {
  old?: Exports;
  candidate?: Exports;
  upgrade?: Partial<BindingUpgrade>;
}

/** A binding of `greet` that was just upgraded, so the candidate is on trial. */
async function createTrialKernel({
  old = [toolExport("greet")],
  candidate = old,
  upgrade = {},
}: TrialOptions = {}) {
  const fixture = await createTestKernel();
  const binding = await fixture.bind(manifest(old));
  const source = fixture.importer.add({ ...manifest(candidate), version: CANDIDATE });
  await fixture.kernel.packages.install(admin, source);
  const upgraded = await fixture.kernel.bindings.upgrade(admin, {
    package_id: PACKAGE,
    package_version: CANDIDATE,
    ...upgrade,
  });
  return { fixture, binding, upgraded };
}

function endCandidate(fixture: TestKernel, outcome: RunOutcome | RunnerScript): void {
  fixture.runner.script = (running) => {
    if (running.request.package.version !== CANDIDATE) return ok();
    return typeof outcome === "function" ? outcome(running) : outcome;
  };
}

const greet = (fixture: TestKernel, more = {}) =>
  fixture.call({ export_id: "greet", input: {}, ...more }, admin);
const listRunVersions = ({ runner }: TestKernel) => runner.requests.map((request) => request.package.version);
const waitForRollback = (fixture: TestKernel, { binding_id }: Binding) =>
  until(async () => (await fixture.kernel.bindings.get(admin, binding_id)).rolled_back !== undefined);

verifies(
  "bind.hot",
  "reruns a call on the previous version in the same invocation if its version on trial crashes",
  async () => {
    const { fixture, binding } = await createTrialKernel();
    endCandidate(fixture, CRASHED);
    const call = await greet(fixture);
    expect(call).toMatchObject({
      status: "succeeded",
      error: null,
      package_version: OLD,
      retry_count: 1,
      earlier_attempts: [{ reason: "fallback", error: { code: "crashed" } }],
      fallback_from: {
        binding_id: binding.binding_id,
        package_version: CANDIDATE,
        error: { code: "crashed" },
        stderr_tail: "segmentation fault",
      },
    });
    expect(call.fallback_from!.package_digest).not.toBe(call.package_digest);
    const rolled_back = await fixture.kernel.bindings.get(admin, binding.binding_id);
    expect(call.binding_generation).toBe(rolled_back.generation);
    expect(rolled_back.rolled_back).toMatchObject({ package_version: CANDIDATE, invocation_id: call.id });
    const [first, second] = fixture.runner.requests;
    expect(listRunVersions(fixture)).toEqual([CANDIDATE, OLD]);
    // The rerun has the same key, so that a write is not made twice, and never uses a process of the candidate.
    expect(second!.body).toEqual(first!.body);
    expect(second!.attempt).toBe(2);
    expect(second!.pool_key).not.toBe(first!.pool_key);
    expect(await fixture.kernel.invocations.get(admin, call.id)).toEqual(call);
    const { items } = await fixture.kernel.invocations.list(admin, {}, { limit: 9 });
    expect(items).toEqual([call]);
    const events = await fixture.store.outbox.read(0, 100);
    expect(events.filter(({ type }) => type === "invocation.settled")).toHaveLength(1);
  },
);

verifies("bind.hot", "runs a call again only if its process crashed or did not start", async () => {
  const causes: Record<string, boolean> = {
    crashed: true,
    crash_loop: true,
    launch_failed: true,
    handshake_failed: true,
    protocol_version_mismatch: true,
    malformed_response: false,
    timeout: false,
    author_code: false,
  };
  for (const [code, again] of Object.entries(causes)) {
    const { fixture } = await createTrialKernel();
    endCandidate(fixture, ended("failed", code));
    const call = await greet(fixture);
    expect([code, call.status, listRunVersions(fixture)]).toEqual([
      code,
      again ? "succeeded" : "failed",
      again ? [CANDIDATE, OLD] : [CANDIDATE],
    ]);
    if (!again) expect(call).not.toHaveProperty("fallback_from");
  }
});

verifies(
  "inv.effect-class",
  "reruns a call to a version on trial only if repeating it does no harm",
  async () => {
    const toolWith = (effect_class: string) => [toolExport("greet", {}, { effect_class })];
    const cases: [old: string, candidate: string, dispatched: boolean, again: boolean][] = [
      ["idempotent_write", "idempotent_write", true, true],
      ["idempotent_write", "read_only", true, true],
      ["non_idempotent_write", "non_idempotent_write", true, false],
      ["unknown", "unknown", true, false],
      // Both effect classes count, because the call has run in one version and would run in the other.
      ["non_idempotent_write", "read_only", true, false],
      ["read_only", "non_idempotent_write", true, false],
      ["non_idempotent_write", "non_idempotent_write", false, true],
      ["unknown", "unknown", false, true],
    ];
    for (const [old, candidate, dispatched, again] of cases) {
      const { fixture, binding } = await createTrialKernel({
        old: toolWith(old),
        candidate: toolWith(candidate),
      });
      endCandidate(fixture, { ...ended("failed", "launch_failed"), dispatched });
      const call = await greet(fixture);
      expect([old, candidate, dispatched, call.status === "succeeded"]).toEqual([
        old,
        candidate,
        dispatched,
        again,
      ]);
      if (again) expect(call).toMatchObject({ effect_class: old, package_version: OLD });
      else {
        expect(call).toMatchObject({ error: { code: "launch_failed" }, package_version: CANDIDATE });
        expect(listRunVersions(fixture)).toEqual([CANDIDATE]);
        // The version is rolled back nevertheless.
        await waitForRollback(fixture, binding);
      }
    }
  },
);

verifies("grant.narrow", "reruns a call with the grant of the previous version", async () => {
  const old = toolExport("greet", {
    permissions: {
      network: "egress",
      allowed_domains: ["a.example"],
      gateway_api_scopes: ["chains:read"],
    },
  });
  const candidate = toolExport("greet", { permissions: { gateway_api_scopes: ["chains:read"] } });
  const { fixture } = await createTrialKernel({ old: [old], candidate: [candidate] });
  endCandidate(fixture, CRASHED);
  const call = await greet(fixture);
  const [first, second] = fixture.runner.requests;
  expect(first!.grant).toMatchObject({ network: "none", allowed_domains: [] });
  expect(second!.grant).toMatchObject({ network: "egress", allowed_domains: ["a.example"] });
  expect(call.grant).toEqual(second!.grant);
  const token = (request = first!) => request.context.gateway.delegation_token!;
  expect(token(second)).not.toBe(token(first));
  // The limits that the caller requested apply to the rerun too.
  const narrowed = await createTrialKernel({ old: [old], candidate: [candidate] });
  endCandidate(narrowed.fixture, CRASHED);
  await greet(narrowed.fixture, { narrow: { network: "none" } });
  expect(narrowed.fixture.runner.requests[1]!.grant.network).toBe("none");
});

verifies(
  "delegation.token",
  "revokes the token of the crashed attempt before the call runs again",
  async () => {
    const scoped = [toolExport("greet", { permissions: { gateway_api_scopes: ["chains:read"] } })];
    const { fixture } = await createTrialKernel({ old: scoped });
    const accepted: boolean[] = [];
    fixture.runner.script = async ({ request }) => {
      if (request.package.version === CANDIDATE) return CRASHED;
      for (const { context } of fixture.runner.requests)
        accepted.push(
          (await fixture.kernel.keys.authenticate(context.gateway.delegation_token!).catch(() => null)) !==
            null,
        );
      return ok();
    };
    expect(await greet(fixture)).toMatchObject({ status: "succeeded" });
    expect(accepted).toEqual([false, true]);
  },
);

verifies("approval.digest", "does not rerun a call that needs approval in either version", async () => {
  const asks = toolExport("greet", {}, { requires_approval: true });
  for (const [old, candidate] of [
    [asks, asks],
    [asks, toolExport("greet")],
    [toolExport("greet"), asks],
  ] as const) {
    const { fixture, binding } = await createTrialKernel({ old: [old], candidate: [candidate] });
    endCandidate(fixture, CRASHED);
    const { settled, status } = await fixture.kernel.invocations.invoke(admin, {
      export_id: "greet",
      input: {},
    });
    if (status === "waiting_approval") {
      const [pending] = (await fixture.kernel.approvals.list(admin, {}, { limit: 1 })).items;
      await fixture.kernel.approvals.answer(admin, pending!.id, { response: "approve" });
    }
    expect(await settled).toMatchObject({ status: "failed", error: { code: "crashed" } });
    expect(listRunVersions(fixture)).toEqual([CANDIDATE]);
    await waitForRollback(fixture, binding);
  }
});

verifies("sec.revocation", "does not rerun a call whose caller lost its authority", async () => {
  const { fixture } = await createTrialKernel();
  const { key } = await fixture.kernel.keys.create(admin, { name: "agent", role: "user", scopes: [] });
  const caller = { ...admin, actor: key.id, role: "user" as const, scopes: [], admin: false };
  endCandidate(fixture, async () => {
    await fixture.kernel.keys.revoke(admin, key.id);
    return CRASHED;
  });
  const call = await fixture.call({ export_id: "greet", input: {} }, caller);
  expect(call.status).toBe("failed");
  expect(listRunVersions(fixture)).toEqual([CANDIDATE]);
});

verifies(
  "bind.rollout",
  "reruns calls to a crashing share on the binding that serves the other calls",
  async () => {
    const { fixture, binding, upgraded } = await createTrialKernel({ upgrade: { percent: 99.99 } });
    const share = upgraded.find(({ share_of }) => share_of !== undefined)!;
    endCandidate(fixture, CRASHED);
    const calls = await Promise.all([greet(fixture), greet(fixture), greet(fixture)]);
    for (const call of calls)
      expect(call).toMatchObject({
        status: "succeeded",
        package_version: OLD,
        binding_id: binding.binding_id,
        fallback_from: { binding_id: share.binding_id, package_version: CANDIDATE },
      });
  },
);

test("reruns a call at most once, and reports the failure of the previous version", async () => {
  const { fixture } = await createTrialKernel();
  fixture.runner.script = ({ request }) =>
    request.package.version === CANDIDATE ? CRASHED : ended("failed", "crashed");
  const call = await greet(fixture);
  expect(call).toMatchObject({
    status: "failed",
    package_version: OLD,
    fallback_from: { package_version: CANDIDATE },
  });
  expect(listRunVersions(fixture)).toEqual([CANDIDATE, OLD]);
});

verifies("inv.deadline", "keeps the deadline of a call that is rerun", async () => {
  const { fixture, binding } = await createTrialKernel();
  endCandidate(fixture, () => {
    fixture.clock.monotonic_offset += 700;
    return CRASHED;
  });
  expect(await greet(fixture, { timeout_ms: 100_000 })).toMatchObject({ status: "succeeded" });
  const [first, second] = fixture.runner.requests;
  expect(first!.timeout_ms - second!.timeout_ms).toBeGreaterThanOrEqual(700);
  const slow = await createTrialKernel();
  endCandidate(slow.fixture, () => {
    slow.fixture.clock.monotonic_offset += 5_000;
    return CRASHED;
  });
  expect(await greet(slow.fixture, { timeout_ms: 5_000 })).toMatchObject({ error: { code: "crashed" } });
  expect(listRunVersions(slow.fixture)).toEqual([CANDIDATE]);
  await waitForRollback(slow.fixture, slow.binding);
  await waitForRollback(fixture, binding);
});

test("leaves the call failed if the previous version was installed again with different content", async () => {
  const { fixture } = await createTrialKernel();
  const { items } = await fixture.kernel.packages.list(admin, { limit: 5 });
  await fixture.kernel.packages.remove(admin, items.find(({ version }) => version === OLD)!.id);
  await fixture.kernel.packages.install(
    admin,
    fixture.importer.add(manifest([toolExport("greet"), toolExport("other")])),
  );
  endCandidate(fixture, CRASHED);
  expect(await greet(fixture)).toMatchObject({ status: "failed", package_version: CANDIDATE });
  expect(listRunVersions(fixture)).toEqual([CANDIDATE]);
});

verifies(
  "inv.effect-class",
  "continues with the previous version after the gateway is killed during the rerun",
  async () => {
    const { fixture } = await createTrialKernel();
    fixture.runner.script = ({ request }) =>
      request.package.version === CANDIDATE ? CRASHED : new Promise<never>(() => {});
    const { id } = await fixture.kernel.invocations.invoke(admin, { export_id: "greet", input: {} });
    await until(() => fixture.runner.requests.length === 2);
    await fixture.crash();
    const next = await createTestKernel({ file: fixture.file });
    const read = () => next.kernel.invocations.get(admin, id);
    await until(async () => (await read()).status === "succeeded");
    expect(await read()).toMatchObject({
      package_version: OLD,
      retry_count: 2,
      fallback_from: { package_version: CANDIDATE },
    });
    expect(listRunVersions(next)).toEqual([OLD]);
  },
);

test("ends a call that is cancelled while the version is rolled back", async () => {
  const { fixture } = await createTrialKernel();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { installations } = fixture.store;
  const commit = installations.commit.bind(installations);
  let rolling = false;
  installations.commit = async (...change) => {
    rolling = true;
    await released;
    return await commit(...change);
  };
  endCandidate(fixture, CRASHED);
  const { id, settled } = await fixture.kernel.invocations.invoke(admin, { export_id: "greet", input: {} });
  await until(() => rolling);
  await fixture.kernel.invocations.cancel(admin, id);
  expect(await settled).toMatchObject({ status: "cancelled" });
  release();
  expect(listRunVersions(fixture)).toEqual([CANDIDATE]);
});

test("leaves the call failed if an operator has changed the binding to another version", async () => {
  for (const upgrade of [{}, { percent: 99.99 }]) {
    const { fixture, binding } = await createTrialKernel({ upgrade });
    const next = fixture.importer.add({ ...manifest([toolExport("greet")]), version: "0.3.0" });
    await fixture.kernel.packages.install(admin, next);
    endCandidate(fixture, async () => {
      await fixture.kernel.bindings.patch(admin, binding.binding_id, { package_version: "0.3.0" }, undefined);
      return CRASHED;
    });
    expect(await greet(fixture)).toMatchObject({ status: "failed", package_version: CANDIDATE });
    expect(listRunVersions(fixture)).toEqual([CANDIDATE]);
  }
});

test("keeps the outcome of a call that was still running when its version on trial was rolled back", async () => {
  const { fixture } = await createTrialKernel();
  const { promise: crashed, resolve: crash } = Promise.withResolvers<void>();
  endCandidate(fixture, async ({ request }) => {
    if ((request.body.input as { text?: string }).text === undefined) return CRASHED;
    await crashed;
    return ended("failed", "malformed_response");
  });
  const slow_call = greet(fixture, { input: { text: "slow" } });
  await until(() => fixture.runner.requests.length === 1);
  expect(await greet(fixture)).toMatchObject({ status: "succeeded", package_version: OLD });
  crash();
  expect(await slow_call).toMatchObject({
    error: { code: "malformed_response" },
    package_version: CANDIDATE,
  });
});

test("leaves the call failed if an operator has rolled the binding back to different content", async () => {
  const { fixture, binding } = await createTrialKernel();
  const { items } = await fixture.kernel.packages.list(admin, { limit: 5 });
  await fixture.kernel.packages.remove(admin, items.find(({ version }) => version === OLD)!.id);
  const different_content = fixture.importer.add(manifest([toolExport("greet"), toolExport("other")]));
  await fixture.kernel.packages.install(admin, different_content);
  endCandidate(fixture, async () => {
    await fixture.kernel.bindings.rollback(admin, binding.binding_id);
    return CRASHED;
  });
  expect(await greet(fixture)).toMatchObject({ status: "failed", package_version: CANDIDATE });
  expect(listRunVersions(fixture)).toEqual([CANDIDATE]);
});
