/**
 * Two gateways on one PostgreSQL database: lost leases, takeovers, store outages, and messages for each other's turns.
 */
import { BackplaneError, type KernelTool } from "@backplane/contract";
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import { toolOk } from "@backplane/sdk/kernel";
import { openPostgresStore } from "@backplane/store";
import { autoApprovePlugin } from "@backplane/test-kit/kernel/auto-approve-plugin";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startPostgres, type TestPostgres } from "../../../../test/support/store/postgres.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSessionIn, type TestSession } from "./test-session.ts";

const s1 = { session_id: "s1" };
/** Enough for a busy machine: a gateway fails to start if the store does not answer within a third of this time. */
const LEASE_MS = 3_000;

let server: TestPostgres;
let schemas = 0;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(async () => {
  await server?.stop();
});

interface TestGateway extends TestSession {
  /** Stops the renewal of the leases, as if the gateway were frozen. Returns a function that resumes the renewal. */
  freeze(): () => void;
}

/** `createTools` is called once for each of the two gateways. */
async function createTwoGateways(
  createTools: (node: number) => KernelTool[] = () => [],
): Promise<[TestGateway, TestGateway, string]> {
  const schema = `fenced_${++schemas}`;
  const createGateway = async (n: number): Promise<TestGateway> => {
    const store = await openPostgresStore({ url: server.url, schema });
    const host = { recovery: { interval_ms: 100, node_ttl_ms: LEASE_MS } };
    const fixture = await createTestSessionIn(store, "", {
      tools: createTools(n),
      plugins: [agentTool, autoApprovePlugin().plugin],
      host,
    });
    const { leases, jobs } = store;
    return {
      ...fixture,
      freeze() {
        const unavailable = () => Promise.reject(new BackplaneError("store.unavailable"));
        store.leases = { ...leases, acquire: unavailable };
        store.jobs = { ...jobs, extend: unavailable };
        return () => {
          store.leases = leases;
          store.jobs = jobs;
        };
      },
    };
  };
  const nodes = [await createGateway(0), await createGateway(1)] as const;
  const policy = { tolerance: { conversation: "full" } };
  await nodes[0].kernel.policy.patch(admin, "org", policy as never);
  return [...nodes, schema];
}

/** A tool that must not run twice. Its first run on the first gateway hangs until the test releases it. */
function payTool(paid: string[], released: Promise<void>) {
  return (node: number): KernelTool[] => [
    {
      name: "pay",
      description: "Pays.",
      parameters: { type: "object", properties: { what: { type: "string" } } },
      effect_class: "non_idempotent_write",
      async run({ what }) {
        paid.push(`${node} ${what as string}`);
        if (node === 0 && what === "a") await released;
        return toolOk(`paid ${what as string}`);
      },
    },
  ];
}

const PAY_TWICE = '/tool pay {"what": "a"}\n/then\n/tool pay {"what": "b"}\n/then\n/say over';

verifies(
  "node.fence",
  "continues a taken-over turn on one gateway only; the previous one makes no writes and no calls",
  async () => {
    const paid: string[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const [first, second] = await createTwoGateways(payTool(paid, promise));
    const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text: PAY_TWICE });
    await until(() => paid.length === 1);
    const thaw = first.freeze();
    const status = async () => (await second.kernel.runs.get(user, run_id)).status;
    await until(async () => (await status()) !== "running");
    expect(await second.kernel.runs.get(user, run_id)).toMatchObject({ status: "completed", resumed: 1 });
    expect(paid).toEqual(["0 a", "1 b"]);
    const before = await second.tape();
    thaw();
    await until(async () => (await first.kernel.health()).lease.held);
    resolve();
    // The session is free on the first gateway, and late writes of the old turn are refused.
    await until(async () => {
      const { run_id: next } = await first.kernel.sessions.sendMessage(user, s1, { text: "/say hello" });
      return next !== run_id;
    });
    await until(async () => {
      const { items } = await first.kernel.runs.list(user, s1, { limit: 9 });
      return items.every((run) => run.status === "completed");
    });
    expect(paid).toEqual(["0 a", "1 b"]);
    const tape = await second.tape();
    expect(tape.slice(0, before.length)).toEqual(before);
    const after = tape.slice(before.length).filter(({ kind }) => kind !== "event");
    expect(after.map(({ payload }) => payload.content)).toEqual(["/say hello", "hello"]);
  },
  60_000,
);

verifies("subagent.resume", "takes over a sub-agent together with the call that waits for it", async () => {
  const looked: number[] = [];
  const [first, second] = await createTwoGateways((node) => [
    {
      name: "look",
      description: "Looks.",
      parameters: { type: "object", properties: {} },
      effect_class: "read_only",
      run() {
        looked.push(node);
        return node === 0 ? new Promise(() => {}) : toolOk("seen");
      },
    },
  ]);
  const goal = "/tool look {}\n/then\n/say the child is done";
  const text = `/tool agent ${JSON.stringify({ goal })}\n/then\n/say over`;
  const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text });
  await until(() => looked.length === 1);
  first.freeze();
  await until(async () => (await second.kernel.runs.get(user, run_id)).status !== "running");
  expect(await second.kernel.runs.get(user, run_id)).toMatchObject({ status: "completed", resumed: 1 });
  expect(looked).toEqual([0, 1]);
  const { items } = await second.kernel.runs.list(user, {}, { limit: 9 });
  const children = items.filter(({ trigger }) => trigger === "subagent");
  expect(children).toMatchObject([
    { status: "completed", resumed: 1, output: { content: "the child is done" } },
  ]);
  const result = (await second.tape()).filter(({ kind }) => kind === "tool_result");
  expect(result).toMatchObject([{ payload: { ok: true } }]);
  const announced = second.events.filter(({ session_id }) => session_id === "_bridge:agent-tool");
  expect(announced.map(({ kind }) => kind)).toEqual(["x.agent.subagent.completed"]);
});

test("does not dispatch a queued call that another gateway has taken over", async () => {
  const [first, second] = await createTwoGateways();
  const narrow = toolExport("narrow", { max_concurrency: 1 }, { effect_class: "non_idempotent_write" });
  await first.bind(manifest([narrow]));
  const { promise, resolve } = Promise.withResolvers<void>();
  first.runner.script = async () => {
    await promise;
    return ok();
  };
  await first.kernel.invocations.invoke(user, { export_id: "narrow" });
  await until(() => first.runner.requests.length === 1);
  const queued = await first.kernel.invocations.invoke(user, { export_id: "narrow" });
  const thaw = first.freeze();
  const row = () => second.kernel.invocations.get(user, queued.id);
  await until(async () => (await row()).status === "failed");
  expect((await row()).error).toMatchObject({ code: "outcome_unknown" });
  thaw();
  await until(async () => (await first.kernel.health()).lease.held);
  resolve();
  expect(await queued.settled).toMatchObject({ status: "failed", error: { code: "outcome_unknown" } });
  expect(first.runner.requests).toHaveLength(1);
}, 60_000);

test("dispatches nothing while the lease is expired", async () => {
  const [first, second] = await createTwoGateways();
  await second.crash();
  await first.bind(manifest([toolExport("read")]));
  const thaw = first.freeze();
  await until(async () => !(await first.kernel.health()).lease.held);
  const ticket = await first.kernel.invocations.invoke(user, { export_id: "read" });
  await new Promise((done) => setTimeout(done, 300));
  expect(first.runner.requests).toHaveLength(0);
  thaw();
  expect(await ticket.settled).toMatchObject({ status: "succeeded" });
  expect(first.runner.requests).toHaveLength(1);
}, 60_000);

verifies(
  "node.store-outage",
  "takes over no calls or deliveries of live gateways for one lease period after a store outage",
  async () => {
    const [first, second, schema] = await createTwoGateways();
    const content = manifest([
      toolExport("quick"),
      toolExport("read"),
      hookExport("notify", ["invocation.settled"]),
    ]);
    await first.bind(content);
    for (const export_id of ["read", "notify"]) await first.bind(content, { export_id });
    const { promise, resolve } = Promise.withResolvers<void>();
    for (const node of [first, second]) {
      node.runner.script = async ({ request }) => {
        if (request.export_id !== "quick") await promise;
        return ok();
      };
    }
    const requests = (export_id: string) =>
      [first, second].map(
        ({ runner }) => runner.requests.filter((request) => request.export_id === export_id).length,
      );
    await until(async () => (await second.kernel.health()).lease.takes_over);
    await first.call({ export_id: "quick" });
    await until(() => requests("notify").includes(1));
    const ticket = await first.kernel.invocations.invoke(user, { export_id: "read", timeout_ms: 50_000 });
    await until(() => requests("read")[0] === 1);
    // The store is unavailable to both for longer than a lease, and returns for the second gateway first.
    const [thawFirst, thawSecond] = [first.freeze(), second.freeze()];
    const haveLeasesExpired = async () => {
      const healths = await Promise.all([first, second].map(({ kernel }) => kernel.health()));
      return healths.every(({ lease }) => !lease.held);
    };
    await until(haveLeasesExpired);
    await new Promise((done) => setTimeout(done, LEASE_MS / 2));
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    await client.query(`update "${schema}".jobs set due_at = 0 where state = 'leased'`);
    await client.end();
    thawSecond();
    await until(async () => (await second.kernel.health()).lease.held);
    await new Promise((done) => setTimeout(done, 400));
    thawFirst();
    await until(async () => (await second.kernel.health()).lease.takes_over);
    await new Promise((done) => setTimeout(done, 400));
    resolve();
    expect(await ticket.settled).toMatchObject({ status: "succeeded", retry_count: 0 });
    expect(requests("read")).toEqual([1, 0]);
    expect(requests("notify").toSorted((a, b) => a - b)).toEqual([0, 1]);
  },
  60_000,
);

verifies(
  "node.turn-once",
  "adds a message from another gateway to the turn and answers it before the turn ends",
  async () => {
    const paid: string[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const [first, second] = await createTwoGateways(payTool(paid, promise));
    const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text: '/tool pay {"what": "a"}' });
    await until(() => paid.length === 1);
    const accepted = await second.kernel.sessions.sendMessage(user, s1, { text: "/say and this" });
    expect(accepted.run_id).toBe(run_id);
    await expect(second.kernel.sessions.sendMessage(admin, s1, { text: "me too" })).rejects.toMatchObject({
      code: "session.busy",
    });
    await expect(second.kernel.sessions.reset(user, s1)).rejects.toMatchObject({ code: "session.busy" });
    resolve();
    await until(async () => (await second.kernel.runs.get(user, run_id)).status === "completed");
    const messages = (await second.tape()).filter(({ kind }) => kind === "message");
    expect(messages.map(({ payload }) => payload.role)).toEqual(["user", "user", "assistant"]);
    expect(messages.at(-1)!.payload.content).toBe("and this");
  },
  60_000,
);

test("uses the strategy, the limits and the model that another gateway has set, within a second", async () => {
  const [first, second] = await createTwoGateways();
  const turn = async (text: string) => {
    const { run_id } = await second.kernel.sessions.sendMessage(user, s1, { text });
    await until(async () => (await second.kernel.runs.get(user, run_id)).status !== "running");
    return await second.kernel.runs.get(user, run_id);
  };
  expect(await turn("/say before")).toMatchObject({ status: "completed", strategy: "react" });
  await first.kernel.config.set(admin, { "kernel.max_iterations": 1 });
  const provider = { id: "other", plugin: "llm-echo", config: { model: "other-model" } };
  await first.kernel.providers.create(admin, provider);
  await first.kernel.providers.setActive(admin, "other");
  await expect
    .poll(async () => (await turn("/tool missing {}\n/then\n/say after")).error?.code, { timeout: 5_000 })
    .toBe("loop.iterations");
  const requests = second.events.filter(({ kind }) => kind === "llm.call.request");
  expect(requests.at(-1)!.payload).toMatchObject({ provider: "other", model: "other-model" });
  await first.kernel.sessions.patch(user, s1, { strategy: "missing" });
  await expect(second.kernel.sessions.sendMessage(user, s1, { text: "/say x" })).rejects.toMatchObject({
    code: "request.invalid",
    message: expect.stringContaining("the strategy missing"),
  });
});
