/**
 * Two gateways on one PostgreSQL. One has several turns, each at another step, when it is frozen with SIGSTOP for longer
 * than its lease, and the other takes the turns over. After SIGCONT the first writes nothing to them and starts no call.
 */
import pg from "pg";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { type ModelServer, startModelServer, useModelServer } from "../../support/models/model-server.ts";
import { createGatedTool } from "../../support/plugins/gated-tool.ts";
import { startPostgres, type TestPostgres } from "../../support/store/postgres.ts";
import { verifies } from "../../support/verifies.ts";

const ROUNDS = 3;
const LEASE_MS = 6_000;
const TIMEOUT_MS = 120_000;

interface Entry {
  id: number;
  kind: string;
  payload: { role?: string; content?: string; name?: string };
}

interface Run {
  status: string;
  resumed?: number;
  error: { message: string } | null;
}

let postgres: TestPostgres;
let model: ModelServer;
const tool = createGatedTool();
const gateways: TestGateway[] = [];
const clients: pg.Client[] = [];

beforeAll(async () => {
  [postgres, model] = await Promise.all([startPostgres(), startModelServer()]);
}, 60_000);
afterAll(async () => {
  for (const client of clients) await client.end();
  for (const gateway of gateways) {
    gateway.process.kill("SIGCONT");
    await gateway.dispose();
  }
  await model.close();
  await postgres.stop();
  tool.remove();
}, 60_000);

const start = async () => {
  const env = { BACKPLANE_STORE_URL: postgres.url, BACKPLANE_NODE_LEASE_MS: String(LEASE_MS) };
  const gateway = await startTestGateway({ env });
  gateways.push(gateway);
  return gateway;
};

const connectClient = async () => {
  const connected = new pg.Client({ connectionString: postgres.url });
  await connected.connect();
  clients.push(connected);
  return connected;
};

/** Locks rows or a table; the returned function releases the lock. */
async function holdLock(text: string, values: unknown[] = []): Promise<() => Promise<void>> {
  const holder = await connectClient();
  await holder.query("begin");
  await holder.query(text, values);
  return async () => void (await holder.query("rollback"));
}

async function waitForLockedWrites(observer: pg.Client, count = 1): Promise<void> {
  const countLockedWrites = async () =>
    Number(
      (await observer.query("select count(*) from pg_stat_activity where wait_event_type = 'Lock'")).rows[0]
        .count,
    );
  await eventually(
    async () => (await countLockedWrites()) >= count,
    TIMEOUT_MS,
    `${count} writes wait for a lock`,
  );
}

verifies(
  "node.fence",
  "a gateway frozen at each step of a turn runs nothing twice and writes nothing after its turns were taken over",
  async () => {
    const [first, second] = [await start(), await start()];
    await tool.install([first, second]);
    await useModelServer(first, model);
    const observer = await connectClient();
    const sendMessage = (gateway: TestGateway, session_id: string, text: string) =>
      gateway.http<{ run_id: string }>("POST", `/v1/sessions/${session_id}/messages`, { text });
    const waitForCall = (session_id: string) =>
      eventually(
        async () =>
          (await observer.query("select id from invocations where session_id = $1", [session_id]))
            .rowCount === 1,
        TIMEOUT_MS,
        `${session_id} has called its tool`,
      );

    for (let round = 0; round < ROUNDS; round++) {
      // The gateways alternate: the one that is frozen in one round takes over in the next.
      const [frozen, other] = round % 2 === 0 ? [first, second] : [second, first];
      await eventually(
        async () => (await other.http<{ takes_over: boolean }>("GET", "/readyz")).body.takes_over,
        TIMEOUT_MS,
        "the other gateway takes over",
      );
      const name = (step: string) => `r${round}-${step}`;
      const steps = [
        "asked",
        "streaming",
        "unstored",
        "queued",
        "running",
        "unsettled",
        "unanswered",
        "begun",
      ];
      const text = (step: string) => `use ${step === "queued" ? "pay_one" : "pay"} {"name": "${name(step)}"}`;
      const releases: (() => unknown)[] = [];
      const begin = (step: string) => sendMessage(frozen, name(step), text(step));

      // During the model request, during the model's answer, and while the tool runs.
      const requested = model.hold(name("asked"), "tool", "request");
      const streaming = model.hold(name("streaming"), "tool", "text");
      const unstored = model.hold(name("unstored"), "tool", "text");
      const unanswered = model.hold(name("unanswered"), "answer", "text");
      for (const { release } of [requested, streaming, unstored, unanswered]) releases.push(release);
      tool.openGate(name("unanswered"));
      for (const step of ["asked", "streaming", "unstored", "running", "unsettled", "unanswered"]) {
        expect((await begin(step)).status).toBe(202);
      }
      // After the row of the call is written and before dispatch: the only slot is in use.
      const holder = await frozen.http("POST", "/v1/invocations", {
        export_id: "pay_one",
        input: { name: name("holder") },
      });
      expect(holder.status).toBe(202);
      await eventually(() => tool.countRuns(name("holder")) === 1, TIMEOUT_MS, "the slot is taken");
      expect((await begin("queued")).status).toBe(202);
      await Promise.all([requested.reached, streaming.reached, unstored.reached, unanswered.reached]);
      for (const step of ["running", "unsettled"]) {
        await eventually(() => tool.countRuns(name(step)) === 1, TIMEOUT_MS, `the tool of ${step} runs`);
      }
      await waitForCall(name("queued"));
      // After the model's answer and before its entry; before a settlement; before the final answer.
      releases.push(await holdLock("select 1 from sessions where id = $1 for update", [name("unstored")]));
      unstored.release();
      await waitForLockedWrites(observer, 1);
      releases.push(
        await holdLock("select 1 from invocations where session_id = $1 for update", [name("unsettled")]),
      );
      tool.openGate(name("unsettled"));
      await waitForLockedWrites(observer, 2);
      releases.push(
        await holdLock("select 1 from runs where session_id = $1 for update", [name("unanswered")]),
      );
      unanswered.release();
      await waitForLockedWrites(observer, 3);
      // Before the model request: the turn is on disk and cannot read the list of tools.
      const unlockBindings = await holdLock("lock table bindings in access exclusive mode");
      const last_request = begin("begun").catch(() => null);
      await eventually(
        async () =>
          (await observer.query("select 1 from runs where session_id = $1", [name("begun")])).rowCount === 1,
        TIMEOUT_MS,
        "the last turn has begun",
      );

      frozen.process.kill("SIGSTOP");
      await unlockBindings();
      for (const release of releases) await release();
      for (const step of steps) tool.openGate(name(step));
      const listRuns = async (gateway: TestGateway, step: string) => {
        const path = `/v1/runs?session_id=${name(step)}`;
        return (await gateway.http<{ items: Run[] }>("GET", path)).body.items;
      };
      for (const step of steps) {
        await eventually(
          async () => (await listRuns(other, step)).every(({ status }) => status !== "running"),
          TIMEOUT_MS,
          `the turn of ${step} ended on the other gateway`,
        );
      }
      const tapes = new Map<string, Entry[]>();
      for (const step of steps) tapes.set(step, await readTape(other, name(step)));

      frozen.process.kill("SIGCONT");
      tool.openGate(name("holder"));
      await last_request;
      await eventually(
        async () => (await frozen.http("GET", "/readyz")).status === 200,
        TIMEOUT_MS,
        "ready again",
      );
      // Once the next call of the slot has ended, every pending operation of the gateway has had time to finish.
      const last = await frozen.http("POST", "/v1/invocations?wait=50", {
        export_id: "pay_one",
        input: { name: name("holder") },
      });
      expect(last.body).toMatchObject({ status: "succeeded" });
      for (const step of steps) {
        // The session accepts a new turn on the gateway that was frozen.
        const next = await sendMessage(frozen, name(step), "hello again");
        expect([step, next.status]).toEqual([step, 202]);
        await eventually(
          async () => (await listRuns(frozen, step)).every(({ status }) => status === "completed"),
          TIMEOUT_MS,
          `the next turn of ${step} ended`,
        );
      }
      for (const step of steps) {
        const tape = await readTape(other, name(step));
        const earlier_tape = tapes.get(step)!;
        expect([step, tape.slice(0, earlier_tape.length)]).toEqual([step, earlier_tape]);
        // Only the next message and its answer follow the entries that the other gateway wrote.
        const kinds = tape.slice(earlier_tape.length).filter(({ kind }) => kind !== "event");
        expect([step, kinds.map(({ payload }) => payload.content)]).toEqual([
          step,
          ["hello again", "Well, done"],
        ]);
        expect([step, tool.countRuns(name(step)) <= 1]).toEqual([step, true]);
        const messages = earlier_tape
          .filter(({ kind }) => kind === "message")
          .map(({ payload }) => payload.role);
        expect([step, messages]).toEqual([step, ["user", "assistant"]]);
        const runs = await listRuns(other, step);
        expect([step, runs.map(({ status, resumed }) => [status, resumed])]).toEqual([
          step,
          [
            ["completed", undefined],
            ["completed", 1],
          ],
        ]);
        await verifyChain(other, name(step));
      }
      // If the freeze came before the row of the call, the other gateway makes the call; if it came between the
      // row and the dispatch, neither does.
      for (const step of ["begun", "asked", "streaming", "unstored"])
        expect([step, tool.countRuns(name(step))]).toEqual([step, 1]);
      expect(tool.countRuns(name("queued"))).toBe(0);
    }
  },
  600_000,
);

async function readTape(gateway: TestGateway, session_id: string): Promise<Entry[]> {
  const path = `/v1/sessions/${session_id}/entries?after=0&limit=1000`;
  return (await gateway.http<{ items: Entry[] }>("GET", path)).body.items;
}

async function verifyChain(gateway: TestGateway, session_id: string): Promise<void> {
  const { body } = await gateway.http<{ head_chain_id: string }>("GET", `/v1/sessions/${session_id}`);
  const verified = await gateway.http("GET", `/v1/chains/${body.head_chain_id}:verify`);
  expect(verified).toMatchObject({ status: 200, body: { valid: true } });
}
