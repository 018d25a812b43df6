/**
 * The database becomes unavailable for two running gateways with turns, calls and deliveries in progress. When it is
 * available again, everything completes: no call ran twice, no turn failed, no entry is missing. The lists of
 * outages run at the same time, each with its own database and gateways, because they mostly wait.
 */
import { describe, type TestContext } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { startModelServer, useModelServer } from "../../support/models/model-server.ts";
import { createGatedTool } from "../../support/plugins/gated-tool.ts";
import { startDatabaseProxy } from "../../support/store/database-proxy.ts";
import { startPostgres } from "../../support/store/postgres.ts";
import { verifies } from "../../support/verifies.ts";

const LEASE_MS = 6_000;
const WAIT_MS = 120_000;

interface Entry {
  kind: string;
  payload: { role?: string; content?: string; name?: string };
}

interface EndedCall {
  status: string;
  retry_count?: number;
  resumed?: number;
  error: unknown;
}

type Nodes = Awaited<ReturnType<typeof startGateways>>;

/** Two gateways on a database that can become unavailable. */
async function startGateways(onTestFinished: TestContext["onTestFinished"]) {
  const tool = createGatedTool();
  onTestFinished(() => tool.remove());
  const postgres = await startPostgres();
  onTestFinished(() => postgres.stop());
  const model = await startModelServer();
  onTestFinished(() => model.close());
  const proxy = await startDatabaseProxy(postgres);
  onTestFinished(() => proxy.close());
  const env = { BACKPLANE_STORE_URL: proxy.url, BACKPLANE_NODE_LEASE_MS: String(LEASE_MS) };
  const gateways: TestGateway[] = [];
  for (let n = 0; n < 2; n++) {
    const gateway = await startTestGateway({ env });
    onTestFinished(() => gateway.dispose());
    gateways.push(gateway);
  }
  await tool.install(gateways, true);
  await useModelServer(gateways[0]!, model);
  return { tool, model, proxy, gateways };
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

interface Outage {
  seconds: number;
  how: "refusing" | "silent";
}

/** The outages of one list follow each other on the same gateways. */
const OUTAGES: Outage[][] = [
  [
    { seconds: 5, how: "refusing" },
    { seconds: 30, how: "silent" },
  ],
  [{ seconds: 120, how: "refusing" }],
];

describe.concurrent("store outages", () => {
  for (const outages of OUTAGES) {
    const list = outages.map(({ seconds, how }) => `${seconds} s (${how})`).join(" and then of ");
    verifies(
      "node.store-outage",
      `a database outage of ${list} loses no call, no turn and no entry`,
      async ({ expect, onTestFinished }) => {
        const nodes = await startGateways(onTestFinished);
        for (const outage of outages) await checkOutage(outage, nodes, expect);
      },
      900_000,
    );
  }
});

async function checkOutage(
  { seconds, how }: Outage,
  { tool, model, proxy, gateways }: Nodes,
  expect: TestContext["expect"],
): Promise<void> {
  const name = (g: number, step: string) => `s${seconds}-g${g}-${step}`;
  const calls: { id: string; name: string }[] = [];
  const turns: { run_id: string; session_id: string; tool: string }[] = [];
  const holds: { release: () => void }[] = [];
  for (const [g, gateway] of gateways.entries()) {
    for (const export_id of ["look", "note"]) {
      const input = { name: name(g, export_id) };
      const { body } = await gateway.http<{ id: string }>("POST", "/v1/invocations", {
        export_id,
        input,
      });
      calls.push({ id: body.id, name: input.name });
    }
    for (const step of ["text", "answer", "tool"]) {
      const session_id = name(g, step);
      const hold =
        step === "tool" ? null : model.hold(session_id, step === "text" ? "tool" : "answer", "text");
      if (step !== "tool") tool.openGate(session_id);
      const text = `use pay {"name": "${session_id}"}`;
      const { body } = await gateway.http<{ run_id: string }>("POST", `/v1/sessions/${session_id}/messages`, {
        text,
      });
      turns.push({ run_id: body.run_id, session_id, tool: session_id });
      await hold?.reached;
      if (hold !== null) holds.push(hold);
    }
    await eventually(
      () => ["look", "note", "tool"].every((step) => tool.countRuns(name(g, step)) === 1),
      WAIT_MS,
      "the tools run",
    );
  }
  // A hook handles the delivery of a settled call.
  const delivered = tool.deliveries().length;
  tool.holdHooks();
  tool.openGate(name(0, "settled"));
  for (const gateway of gateways) {
    const input = { name: name(0, "settled") };
    await gateway.http("POST", "/v1/invocations?wait=50", { export_id: "look", input });
  }
  await eventually(() => tool.deliveries().length >= delivered + 2, WAIT_MS, "the hook is called");

  proxy.startOutage(how);
  await pause(seconds * 500);
  // During the outage, work in progress continues as far as possible without the store.
  for (const { release } of holds) release();
  for (const g of gateways.keys()) {
    for (const step of ["look", "note", "tool"]) tool.openGate(name(g, step));
  }
  tool.releaseHooks();
  for (const [g, gateway] of gateways.entries()) {
    const refused = await gateway.http("POST", `/v1/sessions/${name(g, "new")}/messages`, {
      text: "hello",
    });
    expect(refused).toMatchObject({ status: 503, body: { error: { code: "store.unavailable" } } });
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
    expect((await gateway.http("GET", "/readyz")).status).toBe(503);
  }
  await pause(seconds * 500);
  proxy.endOutage();

  for (const { run_id } of turns) await waitUntilEnded(gateways[0]!, `/v1/runs/${run_id}`);
  for (const { id } of calls) await waitUntilEnded(gateways[0]!, `/v1/invocations/${id}`);
  // After one lease, any takeover would have happened.
  await eventually(
    async () => {
      const states = await Promise.all(
        gateways.map((gateway) => gateway.http<{ takes_over: boolean }>("GET", "/readyz")),
      );
      return states.every(({ body }) => body.takes_over === true);
    },
    WAIT_MS,
    "both gateways take over again",
  );
  await pause(LEASE_MS);

  for (const { run_id, session_id } of turns) {
    const { body } = await gateways[0]!.http<EndedCall>("GET", `/v1/runs/${run_id}`);
    expect([session_id, body.status, body.resumed, body.error]).toEqual([
      session_id,
      "completed",
      undefined,
      null,
    ]);
    expect([session_id, tool.countRuns(session_id)]).toEqual([session_id, 1]);
    expect([session_id, await readTape(gateways[0]!, session_id)]).toEqual([session_id, TAPE]);
  }
  for (const { id, name: called } of calls) {
    const { body } = await gateways[1]!.http<EndedCall>("GET", `/v1/invocations/${id}`);
    expect([called, body.status, body.retry_count, tool.countRuns(called)]).toEqual([
      called,
      "succeeded",
      0,
      1,
    ]);
  }
  const deliveries = tool.deliveries();
  expect(deliveries).toEqual([...new Set(deliveries)]);
  for (const [g, gateway] of gateways.entries()) {
    expect((await gateway.http("GET", `/v1/sessions/${name(g, "new")}`)).status).toBe(404);
    expect(gateway.log()).not.toContain("were lost");
  }
}

/** The entries of a turn with one tool call, in tape order, without entries of strategies. */
const TAPE = [
  "user",
  "llm.call.request",
  "llm.call.response",
  "tool_call",
  "tool_result",
  "llm.call.request",
  "llm.call.response",
  "assistant",
];

async function readTape(gateway: TestGateway, session_id: string): Promise<string[]> {
  const path = `/v1/sessions/${session_id}/entries?after=0&limit=1000`;
  const { body } = await gateway.http<{ items: Entry[] }>("GET", path);
  return body.items.flatMap(({ kind, payload }) => {
    if (kind === "message") return [payload.role!];
    if (kind === "event") return payload.name!.startsWith("llm.call.") ? [payload.name!] : [];
    return kind === "anchor" ? [] : [kind];
  });
}

async function waitUntilEnded(gateway: TestGateway, path: string): Promise<void> {
  await eventually(
    async () => {
      const { status, body } = await gateway.http<EndedCall>("GET", path);
      return status === 200 && body.status !== "running";
    },
    WAIT_MS,
    `${path} ended`,
  );
}
