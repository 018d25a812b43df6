import type { HostPolicy } from "@backplane/ports";
import { openPostgresStore } from "@backplane/store";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok, type RunnerScript } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, seedTestKernel, type TestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startPostgres, type TestPostgres } from "../../../test/support/store/postgres.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { createTestSessionIn } from "../../agent/test/loop/test-session.ts";
import { createRevocableKey } from "../../door/test/authority/revocable-key.ts";

let server: TestPostgres;
let schema_count = 0;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(async () => {
  await server?.stop();
});

/** Two gateways on one database, each with its own connections. */
async function createTwoKernels(host: Partial<HostPolicy> = {}): Promise<[TestKernel, TestKernel]> {
  const schema = `nodes_${++schema_count}`;
  const createNode = async () => {
    const store = await openPostgresStore({ url: server.url, schema });
    return await seedTestKernel(store, "", {
      host: { recovery: { interval_ms: 100, node_ttl_ms: 4_000 }, ...host },
    });
  };
  return [await createNode(), await createNode()];
}

verifies(
  "bind.concurrency",
  "never exceeds max_concurrency across two gateways on one database, even when one of them dies",
  async () => {
    // The lease of the dead gateway outlives the test, so that the other gateway does not recover its calls.
    const recovery = { interval_ms: 100, node_ttl_ms: 60_000 };
    const [first, second] = await createTwoKernels({ queue_per_binding: 40, recovery });
    await first.bind(manifest([toolExport("narrow", { max_concurrency: 3 })]));
    let running = 0;
    let peak = 0;
    const script = async () => {
      peak = Math.max(peak, ++running);
      await new Promise((resolve) => setTimeout(resolve, 5));
      running--;
      return ok();
    };
    first.runner.script = script;
    second.runner.script = script;
    const calls = Array.from({ length: 60 }, (_, i) =>
      (i % 2 === 0 ? first : second).call({ export_id: "narrow" }),
    );
    for (const done of await Promise.all(calls)) expect(done.status).toBe("succeeded");
    expect(peak).toBe(3);
    expect(first.runner.requests.length).toBe(30);
    // The slots of the dead gateway stay in use until their leases expire, so only one is left.
    first.runner.script = () => new Promise<never>(() => {});
    for (let i = 0; i < 2; i++)
      await first.kernel.invocations.invoke(user, { export_id: "narrow", timeout_ms: 60_000 });
    await until(() => first.runner.running === 2);
    await first.crash();
    peak = 0;
    const alone = Array.from({ length: 6 }, () => second.call({ export_id: "narrow" }));
    for (const done of await Promise.all(alone)) expect(done.status).toBe("succeeded");
    expect(peak).toBe(1);
  },
  60_000,
);

/** Crashes a gateway during a call. `survivor_files` states whether each survivor has the files of the package. */
async function loseGateway(
  host: Partial<HostPolicy>,
  export_id: string,
  survivor_files: ("files" | "none")[],
) {
  const schema = `nodes_${++schema_count}`;
  const createNode = async (files: "files" | "none") => {
    const store = await openPostgresStore({ url: server.url, schema });
    const recovery = { interval_ms: 50, node_ttl_ms: 4_000 };
    const fixture = await seedTestKernel(store, "", { host: { recovery, ...host } });
    fixture.importer.has = async () => {
      lookups++;
      return files === "files";
    };
    return fixture;
  };
  let lookups = 0;
  const first = await createNode("files");
  const survivors: TestKernel[] = [];
  for (const files of survivor_files) survivors.push(await createNode(files));
  const tools = [
    toolExport("read", {}, { effect_class: "read_only" }),
    toolExport("write", {}, { effect_class: "non_idempotent_write" }),
  ];
  await first.bind(manifest([...tools]), { export_id });
  first.runner.script = () => new Promise<never>(() => {});
  const { id } = await first.kernel.invocations.invoke(user, { export_id, timeout_ms: 60_000 });
  await until(() => first.runner.running === 1);
  await first.crash();
  const read = () => survivors[0]!.kernel.invocations.get(user, id);
  return { survivors, read, addSurvivor: createNode, countLookups: () => lookups };
}

verifies(
  "inv.effect-class",
  "leaves the call of a dead gateway to a gateway that has the files of its package",
  async () => {
    const lost = await loseGateway({ missing_files_ms: 600_000 }, "read", ["none"]);
    const { survivors, read, addSurvivor, countLookups } = lost;
    const [without_files] = survivors as [TestKernel];
    // The survivor has looked for the files twice, so it left the call alone the first time.
    await until(() => countLookups() >= 2);
    const with_files = await addSurvivor("files");
    await until(async () => (await read()).status !== "running");
    expect(await read()).toMatchObject({ status: "succeeded", retry_count: 1 });
    expect(without_files.runner.requests).toEqual([]);
    expect(with_files.runner.requests).toHaveLength(1);
  },
  60_000,
);

verifies(
  "inv.effect-class",
  "ends the call of a dead gateway with package.files_missing if no gateway has the files in time",
  async () => {
    const { survivors, read } = await loseGateway({ missing_files_ms: 1_000 }, "read", ["none", "none"]);
    await until(async () => (await read()).status !== "running");
    expect(await read()).toMatchObject({
      status: "failed",
      error: {
        code: "package.files_missing",
        message: expect.stringContaining("acme/devkit 0.1.0"),
        details: { fix: expect.stringContaining("Install acme/devkit 0.1.0 again on any gateway") },
      },
    });
    for (const { runner } of survivors) expect(runner.requests).toEqual([]);
  },
  60_000,
);

test("ends an interrupted call that must not run twice without waiting for the files of its package", async () => {
  const { read } = await loseGateway({ missing_files_ms: 600_000 }, "write", ["none"]);
  await until(async () => (await read()).status !== "running");
  expect(await read()).toMatchObject({ error: { code: "outcome_unknown" } });
}, 60_000);

verifies(
  "hook.contract",
  "leaves a delivery to a gateway that has the files of the hook, even after its last attempt",
  async () => {
    const deliveries = { concurrency: 4, per_binding: 4, max_attempts: 1, base_ms: 5, max_ms: 20 };
    const [first, second] = await createTwoKernels({ deliveries });
    await first.bind(manifest([toolExport("echo"), hookExport("notify", ["invocation.settled"])]));
    await first.kernel.bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      export_id: "notify",
    });
    const missing: RunnerScript = ({ request }) =>
      request.op === "hook.handle" ? ended("failed", "package.files_missing") : ok();
    first.runner.script = missing;
    second.runner.script = missing;
    for (let n = 0; n < 4; n++) await first.call({ export_id: "echo" });
    const list = async () => (await first.kernel.deliveries.list(user, {}, { limit: 9 })).items;
    await until(
      async () => (await list()).length === 4 && (await list()).every(({ attempt }) => attempt > 1),
    );
    second.runner.script = () => ok(null);
    await until(async () => (await list()).every(({ status }) => status === "delivered"));
    expect(await list()).toHaveLength(4);
  },
  60_000,
);

verifies(
  "hook.contract",
  "delivers each event once across two gateways, and again with the same delivery id when one of them dies",
  async () => {
    const deliveries = { concurrency: 4, per_binding: 4, max_attempts: 5, base_ms: 5, max_ms: 20 };
    const [first, second] = await createTwoKernels({ deliveries });
    await first.bind(manifest([toolExport("echo"), hookExport("notify", ["invocation.settled"])]));
    await first.kernel.bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      export_id: "notify",
    });
    const handled: { id: string; attempt: number }[] = [];
    let frozen = false;
    const scriptFor = (gateway: TestKernel): RunnerScript => {
      return async ({ request }) => {
        if (request.op !== "hook.handle") return ok();
        if (frozen && gateway === first) return await new Promise<never>(() => {});
        const { delivery_id, attempt } = request.body as { delivery_id: string; attempt: number };
        handled.push({ id: delivery_id, attempt });
        return ok();
      };
    };
    for (const gateway of [first, second]) gateway.runner.script = scriptFor(gateway);
    const listDeliveries = async () => (await second.kernel.deliveries.list(user, {}, { limit: 200 })).items;
    const areDelivered = async (count: number) => {
      const rows = await listDeliveries();
      return rows.length === count && rows.every(({ status }) => status === "delivered");
    };
    await Promise.all(
      Array.from({ length: 30 }, (_, n) => (n % 2 === 0 ? first : second).call({ export_id: "echo" })),
    );
    await until(() => areDelivered(30));
    expect(handled).toHaveLength(30);
    expect(new Set(handled.map(({ id }) => id)).size).toBe(30);
    expect(handled.every(({ attempt }) => attempt === 1)).toBe(true);

    frozen = true;
    handled.length = 0;
    // Calls are made until the gateway that will die has begun a delivery.
    let extra_calls = 0;
    while (first.runner.running === 0) {
      await first.call({ export_id: "echo" });
      extra_calls++;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await first.crash();
    await until(() => areDelivered(30 + extra_calls));
    const rows = (await listDeliveries()).map(({ id }) => id);
    expect(rows).toEqual(expect.arrayContaining(handled.map(({ id }) => id)));
    expect(handled.some(({ attempt }) => attempt > 1)).toBe(true);
    expect(new Set(handled.map(({ id }) => id)).size).toBe(extra_calls);
  },
  60_000,
);

test("takes over the calls and approvals of a dead gateway", async () => {
  const [first, second] = await createTwoKernels();
  const content = manifest([toolExport("read"), toolExport("ask", {}, { requires_approval: true })]);
  await first.bind(content);
  await first.bind(content, { export_id: "ask", policy: { approval_timeout_ms: 3_600_000 } });
  first.runner.script = () => new Promise<never>(() => {});
  const lost = await first.kernel.invocations.invoke(user, { export_id: "read" });
  const call = await first.kernel.invocations.invoke(user, { export_id: "ask" });
  await until(() => first.runner.running === 1);
  await first.crash();
  const { invocations, approvals } = second.kernel;
  await until(async () => (await invocations.get(user, lost.id)).status === "succeeded");
  expect(await invocations.get(user, lost.id)).toMatchObject({
    retry_count: 1,
    execution_id: lost.invocation.execution_id,
  });
  await until(async () => (await second.kernel.health()).invocations.waiting_approval === 1);
  await approvals.answer(admin, call.invocation.approval_id!, { response: "approve" });
  await until(async () => (await invocations.get(user, call.id)).status === "succeeded");
});

verifies(
  "bind.hot",
  "rolls a version back once, whichever of two gateways on one database sees it crash",
  async () => {
    const [first, second] = await createTwoKernels();
    const content = manifest([toolExport("read")]);
    const { binding_id, package_id } = await first.bind(content);
    await first.kernel.packages.install(admin, first.importer.add({ ...content, version: "0.2.0" }));
    const next = { package_id, package_version: "0.2.0" };
    await first.kernel.bindings.upgrade(admin, next);
    for (const { runner } of [first, second])
      runner.script = ({ request }) =>
        request.package.version === "0.2.0" ? ended("failed", "crashed") : ok();
    const calls = Array.from({ length: 8 }, (_, n) => [first, second][n % 2]!.call({ export_id: "read" }));
    await Promise.all(calls);
    const current = async () => (await second.kernel.bindings.get(admin, binding_id)).package_version;
    await expect.poll(current, { timeout: 10_000 }).toBe("0.1.0");
    for (const gateway of [first, second])
      expect(await gateway.call({ export_id: "read" })).toMatchObject({ status: "succeeded" });
    const audited = { action: "binding.rollback" };
    expect((await second.store.audit.list(admin.scope, audited, { limit: 5 })).items).toHaveLength(1);
    // The other gateway ends a rollout whose gateway has died.
    await first.kernel.bindings.upgrade(admin, { ...next, percent: 99.99 });
    await first.crash();
    await second.call({ export_id: "read" });
    const shares = async () =>
      (await second.kernel.bindings.list(admin, {}, { limit: 5 })).items
        .filter(({ share_of }) => share_of === binding_id)
        .map(({ rollout }) => rollout.traffic_percent);
    await expect.poll(shares, { timeout: 10_000 }).toEqual([0]);
    expect(await second.call({ export_id: "read" })).toMatchObject({ package_version: "0.1.0" });
  },
  60_000,
);

test("lets one gateway watch, cancel and approve calls that run on another", async () => {
  const [first, second] = await createTwoKernels();
  const content = manifest([toolExport("slow"), toolExport("ask", {}, { requires_approval: true })]);
  await first.bind(content);
  await first.bind(content, { export_id: "ask" });
  first.runner.script = async ({ event, request, cancelled }) => {
    if (request.export_id === "ask") return ok();
    for (let i = 1; i <= 3; i++) event({ type: "progress", i });
    return ended("cancelled", await cancelled);
  };
  const slow = await first.kernel.invocations.invoke(user, { export_id: "slow" });
  const watched: unknown[] = [];
  const watching = (async () => {
    const stop = new AbortController().signal;
    for await (const item of second.kernel.invocations.watch(user, slow.id, 0, stop)) {
      watched.push("seq" in item ? item.seq : item.settled.status);
    }
  })();
  await until(() => watched.length === 3);
  await second.kernel.invocations.cancel(user, slow.id);
  await watching;
  expect(watched).toEqual([1, 2, 3, "cancelled"]);
  const call = await first.kernel.invocations.invoke(user, { export_id: "ask" });
  await second.kernel.approvals.answer(admin, call.invocation.approval_id!, { response: "approve" });
  expect((await call.settled).status).toBe("succeeded");
  expect(second.runner.requests).toHaveLength(0);
});

verifies(
  "sec.revocation",
  "stops a key's calls, approvals and turns on one gateway after the key is revoked on another",
  async () => {
    const schema = `nodes_${++schema_count}`;
    const [first, second] = await Promise.all(
      [1, 2].map(
        async () => await createTestSessionIn(await openPostgresStore({ url: server.url, schema }), ""),
      ),
    );
    const content = manifest([toolExport("slow"), toolExport("ask", {}, { requires_approval: true })]);
    await first!.bind(content);
    await first!.bind(content, { export_id: "ask" });
    first!.runner.script = () => new Promise<never>(() => {});
    const key = await createRevocableKey(second!);
    const { invocations, runs } = first!.kernel;
    const slow = await invocations.invoke(key.caller, { export_id: "slow", timeout_ms: 60_000 });
    const ask = await invocations.invoke(key.caller, { export_id: "ask" });
    const text = Array.from({ length: 400 }, (_, n) => `word${n}`).join(" ");
    const turn = await runs.start(key.caller, {
      session_id: "s1",
      input: { text: `/slow 1000\n/say ${text}` },
    });
    await until(() => first!.runner.running === 1);
    await key.revoke();
    const answer = second!.kernel.approvals.answer(admin, ask.invocation.approval_id!, {
      response: "approve",
    });
    await expect(answer).rejects.toMatchObject({
      code: expect.stringMatching(/^(authority\.key_revoked|approval\.closed)$/),
    });
    const code = "authority.key_revoked";
    expect(await slow.settled).toMatchObject({ status: "failed", error: { code } });
    expect(await ask.settled).toMatchObject({ status: "failed", error: { code } });
    expect(await turn.settled).toMatchObject({ status: "failed", error: { code } });
    expect(await second!.kernel.runs.get(admin, turn.run.id)).toMatchObject({ error: { code } });
    expect(first!.runner.requests).toHaveLength(1);
  },
  60_000,
);

verifies(
  "server.names",
  "gives a name to only one of two servers that are bound at the same time on two gateways",
  async () => {
    const [first, second] = await createTwoKernels();
    for (let round = 0; round < 5; round++) {
      const bound = await Promise.allSettled(
        [first, second].map(async ({ kernel, importer }, node) => {
          const runtime = { protocol: "mcp.stdio" as const, entrypoint: ["node", "server.js"] };
          const content = manifest([], { package_id: `p${node}/round${round}`, runtime });
          const { package: pack } = await kernel.packages.install(admin, importer.add(content));
          const { package_id, version: package_version } = pack;
          return await kernel.bindings.create(user, { package_id, package_version, export_id: "*" });
        }),
      );
      expect(bound.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      expect(bound.find(({ status }) => status === "rejected")).toMatchObject({
        reason: { code: "binding.conflict" },
      });
    }
  },
);
