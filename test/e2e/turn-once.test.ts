/** Two gateways on one PostgreSQL: a session has one running turn across both. */
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { eventually } from "../support/gateway/processes.ts";
import { startPostgres, type TestPostgres } from "../support/store/postgres.ts";
import { verifies } from "../support/verifies.ts";

const PAIRS = 100;
const TIMEOUT_MS = 120_000;

interface Entry {
  kind: string;
  payload: { role?: string; content?: string };
}

let postgres: TestPostgres;
const gateways: TestGateway[] = [];
beforeAll(async () => {
  postgres = await startPostgres();
  const env = { BACKPLANE_STORE_URL: postgres.url };
  gateways.push(await startTestGateway({ env }), await startTestGateway({ env }));
}, 60_000);
afterAll(async () => {
  for (const gateway of gateways) await gateway.dispose();
  await postgres.stop();
}, 60_000);

const sendMessage = (gateway: TestGateway, session_id: string, text: string) =>
  gateway.http<{ run_id: string; error?: { code: string } }>("POST", `/v1/sessions/${session_id}/messages`, {
    text,
  });

const listRuns = async (session_id: string) => {
  const path = `/v1/runs?session_id=${session_id}`;
  return (await gateways[0]!.http<{ items: { id: string; status: string }[] }>("GET", path)).body.items;
};

const waitUntilEnded = async (session_id: string) => {
  await eventually(
    async () => (await listRuns(session_id)).every(({ status }) => status !== "running"),
    TIMEOUT_MS,
    `the turns of ${session_id} end`,
  );
  return await listRuns(session_id);
};

const readMessages = async (session_id: string) => {
  const path = `/v1/sessions/${session_id}/entries?after=0&limit=1000`;
  const { body } = await gateways[1]!.http<{ items: Entry[] }>("GET", path);
  return body.items.filter(({ kind }) => kind === "message").map(({ payload }) => payload);
};

verifies(
  "node.turn-once",
  "never runs two turns of a session at the same time, with 100 pairs of messages on two gateways",
  async () => {
    let joined_turns = 0;
    for (let at = 0; at < PAIRS; at += 20) {
      await Promise.all(
        Array.from({ length: 20 }, async (_, n) => {
          const session_id = `pair-${at + n}`;
          const texts = ["/slow 20\n/say first one two three", "/slow 20\n/say second one two three"];
          const responses = await Promise.all(
            texts.map((text, g) => sendMessage(gateways[g]!, session_id, text)),
          );
          for (const { status, body } of responses) {
            // Each message is accepted, into the running turn or a new one.
            expect([session_id, status, body.error?.code]).toEqual([session_id, 202, undefined]);
          }
          const runs = await waitUntilEnded(session_id);
          expect(runs.map(({ status }) => status)).toEqual(runs.map(() => "completed"));
          expect(new Set(responses.map(({ body }) => body.run_id))).toEqual(
            new Set(runs.map(({ id }) => id)),
          );
          const messages = await readMessages(session_id);
          const said_texts = messages.filter(({ role }) => role === "user").map(({ content }) => content!);
          expect(said_texts.toSorted()).toEqual(texts);
          const roles = messages.map(({ role }) => role);
          // Two turns are written one after another; a single turn answers after both messages.
          if (runs.length === 2) expect(roles).toEqual(["user", "assistant", "user", "assistant"]);
          else {
            joined_turns++;
            expect(roles.at(-1)).toBe("assistant");
          }
        }),
      );
    }
    expect(joined_turns).toBeGreaterThan(0);
  },
  300_000,
);

verifies(
  "node.turn-once",
  "a message to the other gateway joins the running turn and is answered by the last message of that turn",
  async () => {
    const first = await sendMessage(gateways[0]!, "long", "/slow 400\n/say one two three four five six");
    const second = await sendMessage(gateways[1]!, "long", "/say heard you");
    expect([first.status, second.status]).toEqual([202, 202]);
    expect(second.body.run_id).toBe(first.body.run_id);
    const runs = await waitUntilEnded("long");
    expect(runs).toMatchObject([{ id: first.body.run_id, status: "completed" }]);
    const messages = await readMessages("long");
    expect(messages.at(-1)).toMatchObject({ role: "assistant", content: "heard you" });
  },
  120_000,
);

verifies(
  "node.turn-once",
  "rejects a new turn and a reset on one gateway while a turn runs on the other",
  async () => {
    const { body } = await sendMessage(gateways[0]!, "kept", "/slow 500\n/say one two three four five six");
    const busy = { status: 429, body: { error: { code: "session.busy", retryable: true } } };
    const run = await gateways[1]!.http("POST", "/v1/runs", { session_id: "kept", input: { text: "hi" } });
    expect(run).toMatchObject({ ...busy, body: { error: { details: { run_id: body.run_id } } } });
    expect(run.headers.get("retry-after")).toBe("1");
    expect(await gateways[1]!.http("POST", "/v1/sessions/kept:reset")).toMatchObject(busy);
    // A message of another caller would use the rights of the caller who started the turn.
    const key = await gateways[1]!.http<{ token: string }>("POST", "/v1/keys", {
      name: "other",
      scopes: ["sessions:write"],
    });
    const other = await gateways[1]!.http(
      "POST",
      "/v1/sessions/kept/messages",
      { text: "me too" },
      { authorization: `Bearer ${key.body.token}` },
    );
    expect(other).toMatchObject(busy);
    await waitUntilEnded("kept");
    const messages = await readMessages("kept");
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
  },
  120_000,
);
