import { type Invocation, isTerminal } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok, ScriptedRunner } from "@backplane/test-kit/kernel/scripted-runner";
import {
  admin,
  createTestKernel,
  scope,
  type TestKernel,
  until,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { buildCompleteCompaction } from "../fixtures/contract-inputs.ts";

const classes = ["read_only", "idempotent_write", "non_idempotent_write", "unknown"] as const;
const content = manifest([
  ...classes.map((effect_class) => toolExport(effect_class, {}, { effect_class })),
  { id: "agent", kind: "harness", harness: {} },
  { id: "shrink", kind: "compactor", compactor: {} },
  hookExport("notify", ["package.installed"]),
]);

async function bindAll(fixture: TestKernel): Promise<void> {
  await fixture.kernel.packages.install(admin, fixture.importer.add(content));
  for (const { id } of content.exports.filter((item) => item.kind !== "hook")) {
    await fixture.kernel.bindings.create(admin, exportReference(id));
  }
}

const exportReference = (export_id: string) => ({
  package_id: "acme/devkit",
  package_version: "0.1.0",
  export_id,
});

async function waitForEnd(fixture: TestKernel, id: string, caller = user): Promise<Invocation> {
  await until(async () => isTerminal((await fixture.kernel.invocations.get(caller, id)).status));
  return await fixture.kernel.invocations.get(caller, id);
}

verifies(
  "inv.effect-class",
  "after a crash reruns reads, reruns idempotent writes with the same key and ends other tool calls as outcome_unknown",
  async () => {
    const first = await createTestKernel();
    await bindAll(first);
    first.runner.script = () => new Promise<never>(() => {});
    const started = new Map<string, { id: string; execution_id: string }>();
    for (const export_id of [...classes, "agent", "shrink"]) {
      const input = export_id === "shrink" ? buildCompleteCompaction() : {};
      const ticket = await first.kernel.invocations.invoke(user, { export_id, input });
      started.set(export_id, { id: ticket.id, execution_id: ticket.invocation.execution_id });
    }
    await until(() => first.runner.requests.length === started.size);
    // The row is written before the dispatch.
    for (const { id } of started.values()) {
      expect(await first.store.invocations.get(scope, id)).toMatchObject({ status: "running" });
    }
    await first.crash();

    const second = await createTestKernel({ file: first.file });
    for (const export_id of ["read_only", "idempotent_write"]) {
      const { id, execution_id } = started.get(export_id)!;
      expect(await waitForEnd(second, id)).toMatchObject({
        status: "succeeded",
        retry_count: 1,
        execution_id,
        earlier_attempts: [{ reason: "recovery", ended_at: null, error: { code: "outcome_unknown" } }],
      });
      const requests = second.runner.requests.filter((request) => request.invocation_id === id);
      expect(requests.map((request) => request.body.tool_execution_id)).toEqual([execution_id]);
    }
    for (const export_id of ["non_idempotent_write", "unknown"]) {
      const { id } = started.get(export_id)!;
      expect(await waitForEnd(second, id)).toMatchObject({
        status: "failed",
        error: { code: "outcome_unknown" },
      });
      expect(second.runner.requests.some((request) => request.invocation_id === id)).toBe(false);
    }
    // A harness continues its execution.
    const { id, execution_id } = started.get("agent")!;
    expect(await waitForEnd(second, id)).toMatchObject({ status: "succeeded", execution_id });
    await waitForEnd(second, started.get("shrink")!.id);
    expect(second.runner.requests).toHaveLength(4);
  },
);

test("admits recovered calls again with no wider grant", async () => {
  const first = await createTestKernel();
  await first.kernel.packages.install(
    admin,
    first.importer.add(manifest([toolExport("reach", { permissions: { network: "egress" } })])),
  );
  const binding = await first.kernel.bindings.create(admin, {
    ...exportReference("reach"),
    policy: { allowed_domains: ["a.example.com"] },
  });
  first.runner.script = () => new Promise<never>(() => {});
  const interrupted = await first.kernel.invocations.invoke(user, { export_id: "reach" });
  await first.kernel.bindings.patch(
    admin,
    binding.binding_id,
    { policy: { allowed_domains: ["a.example.com", "b.example.com"] } },
    undefined,
  );
  await first.crash();
  const second = await createTestKernel({ file: first.file });
  expect((await waitForEnd(second, interrupted.id)).status).toBe("succeeded");
  expect(second.runner.requests[0]!.grant.allowed_domains).toEqual(["a.example.com"]);
  const last = await second.kernel.invocations.invoke(user, { export_id: "reach" });
  await last.settled;
  second.runner.script = () => new Promise<never>(() => {});
  const gone = await second.kernel.invocations.invoke(user, { export_id: "reach" });
  await until(() => second.runner.running === 1);
  await second.kernel.bindings.patch(admin, binding.binding_id, { status: "disabled" }, undefined);
  await second.crash();
  const third = await createTestKernel({ file: first.file });
  expect(await waitForEnd(third, gone.id)).toMatchObject({ error: { code: "outcome_unknown" } });
  expect(third.runner.requests).toHaveLength(0);
});

test("delivers an event again from its job after a crash, and ends the row of the interrupted attempt", async () => {
  const first = await createTestKernel();
  await first.kernel.packages.install(admin, first.importer.add(content));
  await first.kernel.bindings.create(admin, { ...exportReference("notify"), org_wide: true });
  first.runner.script = () => new Promise<never>(() => {});
  const more = manifest([toolExport("other")], { package_id: "acme/more" });
  await first.kernel.packages.install(admin, first.importer.add(more));
  const findMoreRequest = ({ runner }: TestKernel) =>
    runner.requests.find((request) => JSON.stringify(request.body).includes("acme/more"));
  await until(() => findMoreRequest(first) !== undefined);
  const interrupted = findMoreRequest(first)!;
  await first.crash();
  const second = await createTestKernel({ file: first.file, start: false });
  // The lease of the dead node expires.
  second.clock.wall_offset = 60_000;
  second.runner.script = () => ok(null);
  await second.kernel.start();
  const org: Caller = { ...admin, scope: { org_id: scope.org_id, project_id: null } };
  expect(await waitForEnd(second, interrupted.invocation_id, org)).toMatchObject({
    error: { code: "outcome_unknown" },
  });
  await until(() => findMoreRequest(second) !== undefined);
  const again = findMoreRequest(second)!;
  expect(again.body).toMatchObject({ delivery_id: interrupted.body.delivery_id, attempt: 2 });
  expect(again.invocation_id).not.toBe(interrupted.invocation_id);
  expect((await waitForEnd(second, again.invocation_id, org)).status).toBe("succeeded");
});

test("gives a recovered call a new token and revokes the old one", async () => {
  const first = await createTestKernel();
  await first.bind(manifest([toolExport("reach", { permissions: { gateway_api_scopes: ["chains:read"] } })]));
  first.runner.script = () => new Promise<never>(() => {});
  const ticket = await first.kernel.invocations.invoke(user, { export_id: "reach" });
  await until(() => first.runner.running === 1);
  const old_token = first.runner.requests[0]!.context.gateway.delegation_token!;
  await first.kernel.keys.authenticate(old_token);
  await first.crash();

  const second = await createTestKernel({ file: first.file, start: false });
  let callers: { old: unknown; current: Caller } | undefined;
  second.runner.script = async ({ request }) => {
    const { delegation_token, scopes } = request.context.gateway;
    expect(scopes).toEqual(["chains:read"]);
    expect(delegation_token).not.toBe(old_token);
    callers = {
      old: await second.kernel.keys.authenticate(old_token).catch((error: { code: string }) => error.code),
      current: await second.kernel.keys.authenticate(delegation_token!),
    };
    return ok();
  };
  await second.kernel.start();
  expect((await waitForEnd(second, ticket.id)).status).toBe("succeeded");
  expect(callers).toMatchObject({ old: "auth.invalid", current: { actor: ticket.id } });
  const token = second.runner.requests[0]!.context.gateway.delegation_token!;
  await expect(second.kernel.keys.authenticate(token)).rejects.toMatchObject({ code: "auth.invalid" });
});

test("subtracts the elapsed time from the deadline of a recovered call, within bounds", async () => {
  const first = await createTestKernel();
  await first.bind(manifest([toolExport("slow")]));
  first.runner.script = () => new Promise<never>(() => {});
  const started: string[] = [];
  for (let n = 0; n < 3; n++) {
    started.push((await first.kernel.invocations.invoke(user, { export_id: "slow", timeout_ms: 60_000 })).id);
  }
  await until(() => first.runner.running === 3);
  await first.crash();
  // In order: recovered 40 s later, an hour later, and with a clock that was set back.
  const remaining: number[] = [];
  for (const [n, offset] of [40_000, 3_600_000, -3_600_000].entries()) {
    const runner = new ScriptedRunner();
    runner.script = ({ request }) =>
      request.invocation_id === started[n] ? ok() : new Promise<never>(() => {});
    const fixture = await createTestKernel({ file: first.file, start: false, runner });
    fixture.clock.wall_offset = offset;
    await fixture.kernel.start();
    await waitForEnd(fixture, started[n]!);
    remaining.push(runner.requests.find((request) => request.invocation_id === started[n])!.timeout_ms);
    await fixture.crash();
  }
  for (const [n, limit] of [20_000, 5_000, 60_000].entries()) {
    expect(remaining[n]).toBeLessThanOrEqual(limit);
    expect(remaining[n]).toBeGreaterThan(limit / 2);
  }
});

test("does not run a recovered call if the content of its package changed", async () => {
  const first = await createTestKernel();
  await first.bind(manifest([toolExport("slow")]));
  first.runner.script = () => new Promise<never>(() => {});
  // As if the package had been installed again under the same version since.
  const open = first.store.invocations.open.bind(first.store.invocations);
  first.store.invocations.open = (row, records) => open({ ...row, package_digest: "sha256:0" }, records);
  const { id } = await first.kernel.invocations.invoke(user, { export_id: "slow" });
  await until(() => first.runner.running === 1);
  await first.crash();
  const second = await createTestKernel({ file: first.file });
  expect(await waitForEnd(second, id)).toMatchObject({
    status: "failed",
    error: { code: "outcome_unknown" },
  });
  expect(second.runner.requests).toEqual([]);
});

test("numbers the events of a recovered call after those of its first attempt", async () => {
  const first = await createTestKernel();
  await first.bind(manifest([toolExport("slow")]));
  first.runner.script = ({ event }) => {
    for (const n of [1, 2]) event({ type: "log", n });
    return new Promise<never>(() => {});
  };
  const { id } = await first.kernel.invocations.invoke(user, { export_id: "slow" });
  await until(async () => (await first.store.invocations.listEvents(id, 0, 10)).length === 2);
  await first.crash();
  const runner = new ScriptedRunner();
  runner.script = ({ event }) => {
    event({ type: "log", n: 3 });
    return ok();
  };
  const second = await createTestKernel({ file: first.file, runner });
  await waitForEnd(second, id);
  const events = await second.store.invocations.listEvents(id, 0, 10);
  expect(events.map(({ seq, event }) => [seq, event.n])).toEqual([
    [1, 1],
    [2, 2],
    [3, 3],
  ]);
});

test("lets only the node that took over a call end it, and notifies the waiting client", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("slow")]));
  let finish = () => {};
  const finished = new Promise<void>((resolve) => (finish = resolve));
  fixture.runner.script = async () => {
    await finished;
    return ok();
  };
  const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "slow" });
  await until(() => fixture.runner.running === 1);
  const [claimed] = await fixture.store.invocations.claimOrphans("node_other", fixture.clock.now(), 10);
  finish();
  await until(() => fixture.runner.running === 0);
  const ended_at = new Date().toISOString();
  const error = { code: "outcome_unknown", message: "taken over" };
  const end = {
    status: "failed" as const,
    result: null,
    tool_result: null,
    error,
    retry_count: 0,
    violations: 0,
  };
  const settlement = { ...end, stderr_tail: null, egress: null, started_at: null, ended_at };
  expect(await fixture.store.invocations.settle(ticket.id, claimed!.fence, settlement, {})).toBe(true);
  expect(await ticket.settled).toMatchObject({ status: "failed", error });
});

test("stops rerunning a call that keeps killing its gateway", async () => {
  let fixture = await createTestKernel({ host: { retry: { max_attempts: 2, base_ms: 5 } } });
  await bindAll(fixture);
  fixture.runner.script = () => new Promise<never>(() => {});
  const { id } = await fixture.kernel.invocations.invoke(user, { export_id: "read_only" });
  await until(() => fixture.runner.requests.length === 1);
  for (let life = 1; life <= 2; life++) {
    await fixture.crash();
    const runner = new ScriptedRunner();
    runner.script = () => new Promise<never>(() => {});
    fixture = await createTestKernel({
      file: fixture.file,
      runner,
      host: { retry: { max_attempts: 2, base_ms: 5 } },
    });
    await until(() => fixture.runner.requests.length === 1);
  }
  await fixture.crash();
  fixture = await createTestKernel({ file: fixture.file, host: { retry: { max_attempts: 2, base_ms: 5 } } });
  expect(await waitForEnd(fixture, id)).toMatchObject({
    status: "failed",
    retry_count: 2,
    error: { code: "outcome_unknown" },
  });
  expect(fixture.runner.requests).toHaveLength(0);
});
