/**
 * A gateway is killed in the middle of a turn, each time a little later. After the restart the answer arrives once, no
 * call is on the tape twice, and no sub-agent is started twice.
 */
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { verifies } from "../../support/verifies.ts";

const KILLS = 20;
/** Early kills hit the start of the approved call, later ones the sub-agent. */
const SUBAGENT_KILLS_MS = [0, 0, 8, 16, 24, 60, 120, 180, 240, 300];

interface Entry {
  kind: string;
  payload: { role?: string; content?: string; name?: string; id?: string; tool_call_id?: string };
}

interface Run {
  parent_run_id: string | null;
  status: string;
  resumed?: number;
  output: { content: string } | null;
  error: { message: string } | null;
}

test("delivers the answer after a kill in the middle of a turn, without duplicates", async () => {
  let gateway = await startTestGateway();
  const { home } = gateway;
  let resumed = 0;
  try {
    await bindHello(gateway);
    for (let kill = 0; kill < KILLS; kill++) {
      const session_id = `r${kill}`;
      const answer = `answer ${kill} ${"and so on ".repeat(10)}`.trim();
      const text = `/tool hello {"name": "a"}\n/tool hello {"name": "b"}\n/then\n/slow 20\n/say ${answer}`;
      const { status, body } = await gateway.http<{ run_id: string }>(
        "POST",
        `/v1/sessions/${session_id}/messages`,
        { text },
      );
      expect(status).toBe(202);
      await new Promise((done) => setTimeout(done, kill * 20));
      await gateway.kill9();
      gateway = await startTestGateway({ home });
      const run = await waitForEnd(gateway, body.run_id);
      expect(run).toMatchObject({ status: "completed", error: null, output: { content: answer } });
      resumed += run.resumed ?? 0;
      const tape = await readTape(gateway, session_id);
      const kinds = tape.flatMap(({ kind, payload }) =>
        kind === "message" ? [payload.role] : kind.startsWith("tool_") ? [kind] : [],
      );
      const once = ["user", "tool_call", "tool_call", "tool_result", "tool_result", "assistant"];
      expect(kinds.map(String).toSorted()).toEqual(once.toSorted());
      expect(kinds.at(-1)).toBe("assistant");
      const resumptions = tape.filter(({ payload }) => payload.name === "x.loop.turn.resumed");
      expect(resumptions).toHaveLength(run.resumed ?? 0);
    }
    expect(resumed).toBeGreaterThan(KILLS / 4);
  } finally {
    await gateway.dispose();
  }
});

verifies(
  "subagent.resume",
  "delivers the answer of a sub-agent after a kill, without starting a second sub-agent",
  async () => {
    let gateway = await startTestGateway();
    const { home } = gateway;
    try {
      await bindHello(gateway);
      for (const [kill, delay_ms] of SUBAGENT_KILLS_MS.entries()) {
        const session_id = `a${kill}`;
        const answer = `answer ${kill} ${"and so on ".repeat(10)}`.trim();
        const goal = `/tool hello {"name": "a"}\n/then\n/slow 20\n/say ${answer}`;
        const text = `/tool agent ${JSON.stringify({ goal })}\n/then\n/say over`;
        const path = `/v1/sessions/${session_id}/messages`;
        const { body } = await gateway.http<{ run_id: string }>("POST", path, { text });
        await approve(gateway);
        await new Promise((done) => setTimeout(done, delay_ms));
        await gateway.kill9();
        gateway = await startTestGateway({ home });
        expect(await waitForEnd(gateway, body.run_id)).toMatchObject({
          status: "completed",
          output: { content: "over" },
        });
        const { items } = (await gateway.http<{ items: Run[] }>("GET", "/v1/runs?limit=100")).body;
        const children = items.filter(({ parent_run_id }) => parent_run_id === body.run_id);
        expect(children).toMatchObject([{ status: "completed", output: { content: answer } }]);
        const results = (await readTape(gateway, session_id)).filter(({ kind }) => kind === "tool_result");
        expect(results).toMatchObject([{ payload: { ok: true } }]);
      }
    } finally {
      await gateway.dispose();
    }
  },
);

async function approve(gateway: TestGateway): Promise<void> {
  let id: string | undefined;
  const pending = "/v1/approvals?status=pending";
  await eventually(
    async () => {
      id = (await gateway.http<{ items: { id: string }[] }>("GET", pending)).body.items[0]?.id;
      return id !== undefined;
    },
    60_000,
    "the call of the agent tool awaits approval",
  );
  const { status } = await gateway.http("POST", `/v1/approvals/${id}:answer`, { response: "approve" });
  expect(status).toBe(200);
}

async function waitForEnd(gateway: TestGateway, run_id: string): Promise<Run> {
  let run: Run | undefined;
  await eventually(
    async () => {
      run = (await gateway.http<Run>("GET", `/v1/runs/${run_id}`)).body;
      return run.status !== "running";
    },
    60_000,
    "the turn ended",
  );
  return run!;
}

async function readTape(gateway: TestGateway, session_id: string): Promise<Entry[]> {
  const path = `/v1/sessions/${session_id}/entries?after=0&limit=1000`;
  return (await gateway.http<{ items: Entry[] }>("GET", path)).body.items;
}

async function bindHello(gateway: TestGateway): Promise<void> {
  const folder = resolve("examples/hello-tool");
  const installed = await gateway.cli("plugin", "install", folder, "--bind", "--class", "worker", "--json");
  if (installed.code !== 0) throw new Error(installed.stderr);
}
