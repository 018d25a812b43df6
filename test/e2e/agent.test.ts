/** A conversation over HTTP with a real gateway, its bundled plugins and a tool plugin that a user installed. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, createClient, type RunUpdate } from "@backplane/client";
import type { Approval, Block, Chain, Entry, Run, Session } from "@backplane/contract";
import { afterAll, beforeAll, expect } from "vitest";
import { WebSocket } from "ws";
import { readStream } from "../../packages/api/test/support/read-stream.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { verifies } from "../support/verifies.ts";

const MARKET = `
const text = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const answer = (brief, words) => ({ ok: true, brief, display: { kind: "text", text: words } });
export const plugin = {
  name: "market",
  version: "1.0.0",
  category: "tool",
  subscriptions: () => [],
  async onLoad(ctx) {
    await ctx.registerTool({
      name: "price",
      description: "What something costs.",
      parameters: text,
      effect_class: "read_only",
      run: async (args) => answer("looked up", args.text + " costs 3"),
    });
    await ctx.registerTool({
      name: "buy",
      description: "Spends money.",
      parameters: text,
      requires_approval: true,
      approvalBrief: (args) => "Buy " + args.text + "?",
      run: async (args) => answer("bought", "one " + args.text),
    });
  },
};
`;
const PACKAGE = {
  name: "acme-market",
  version: "1.0.0",
  type: "module",
  exports: "./plugin.mjs",
  "yaya.plugins.v1": { market: { category: "tool" } },
};
const SHOPPING = [
  '/tool price {"text":"bread"}',
  '/tool price {"text":"milk"}',
  "/then",
  '/tool buy {"text":"bread"}',
  "/then",
  "/say bought bread",
].join("\n");

let gateway: TestGateway;
let client: Client;
const folder = mkdtempSync(join(tmpdir(), "backplane-market-"));
const open = async (home?: string) => {
  gateway = await startTestGateway(home === undefined ? {} : { home });
  client = createClient({ url: gateway.url, token: gateway.token });
};
beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify(PACKAGE));
  writeFileSync(join(folder, "plugin.mjs"), MARKET);
  await open();
  const installed = await client.plugins.install(folder, { editable: true });
  expect(installed).toMatchObject([{ name: "market", status: "loaded", mode: "hosted" }]);
});
afterAll(async () => {
  await gateway.dispose();
  rmSync(folder, { recursive: true, force: true });
});

verifies(
  "api.sessions",
  "streams a run with its messages, tools and approval request, and completes it after the answer over /v1/approvals",
  async () => {
    const items_read: { event: string; id: string | null; data: string }[] = [];
    const answered: Promise<Approval>[] = [];
    await readStream(`${gateway.url}/v1/runs?stream=1`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.token}`, "content-type": "application/json" },
      body: JSON.stringify({ session_id: "shopping", input: { text: SHOPPING } }),
      each(item) {
        items_read.push(item);
        if (item.event !== "approval.request") return;
        const { payload } = JSON.parse(item.data).event;
        expect(payload).toMatchObject({ tool_name: "buy", params: { text: "bread" }, brief: "Buy bread?" });
        answered.push(client.approvals.answer(payload.id, { response: "approve" }));
      },
    });
    expect((await Promise.all(answered)).map(({ status }) => status)).toEqual(["approved"]);
    const kinds = items_read.map(({ event }) => event);
    expect([kinds[0], kinds[1], kinds.at(-2), kinds.at(-1)]).toEqual([
      "run.started",
      "user.message.received",
      "assistant.message.done",
      "run",
    ]);
    expect(kinds.filter((kind) => kind === "tool.call.result")).toHaveLength(3);
    expect(kinds.filter((kind) => kind === "tool.call.start")).toHaveLength(3);
    expect(kinds.filter((kind) => kind === "approval.request")).toHaveLength(1);
    expect(kinds).toContain("assistant.message.delta");
    const run = JSON.parse(items_read.at(-1)!.data) as Run;
    expect([run.status, run.output?.content, run.iterations]).toEqual(["completed", "bought bread", 3]);
    const ids = items_read.flatMap(({ id }) => (id === null ? [] : [Number(id)]));
    expect(ids).toEqual([...new Set(ids)].toSorted((a, b) => a - b));

    // The same run as VAI blocks has its calls and results in order.
    const { items } = await client.chains.blocks(run.chain_id, { limit: 500 });
    expect(items.map(({ kind }) => kind)).toEqual([
      "input",
      "tool_call",
      "tool_call",
      "tool_result",
      "tool_result",
      "tool_call",
      "tool_result",
      "response",
    ]);
    expect(JSON.stringify(items)).toContain("bread costs 3");
    expect((await client.chains.runs(run.chain_id)).items).toEqual([run]);
  },
);

verifies(
  "api.sessions",
  "a branch diverges from its session, and both keep their own history across a restart",
  async () => {
    const parent = await client.sessions.get("shopping");
    const child = await client.sessions.branch("shopping", { child_id: "shopping-2" });
    expect(child.parent_session_id).toBe("shopping");
    const fork: Chain = await client.chains.get(child.head_chain_id);
    expect([fork.origin, fork.parent_chain_id]).toEqual(["fork", parent.head_chain_id]);
    const say = async (session_id: string, text: string) =>
      (await client.runs.start({ session_id, input: { text } }, { wait: true })).output?.content;
    expect(await say("shopping", "/say only in the parent")).toBe("only in the parent");
    expect(await say("shopping-2", "/say only in the child")).toBe("only in the child");
    const readTapes = async () => {
      const read = async (id: string): Promise<Entry[]> =>
        (await client.sessions.entries(id, { limit: 1000 })).items;
      return { parent: await read("shopping"), child: await read("shopping-2") };
    };
    // The last entry of a turn is best effort and may not be on the tape yet.
    const listWritten = async () => Object.values(await readTapes()).map((tape) => tape.at(-1)?.payload.name);
    await expect.poll(listWritten).toEqual(["memory.write", "memory.write"]);
    const before = await readTapes();
    // Only messages are compared: the memory belongs to the project and may contain texts of the other session.
    const formatMessages = (tape: Entry[]) => JSON.stringify(tape.filter(({ kind }) => kind === "message"));
    expect(formatMessages(before.parent)).not.toContain("only in the child");
    expect(formatMessages(before.child)).not.toContain("only in the parent");
    expect(JSON.stringify(before.child)).toContain("bread costs 3");
    const sessions: Session[] = (await client.sessions.list()).items;

    expect(await gateway.stop()).toBe(0);
    await open(gateway.home);
    expect(await readTapes()).toEqual(before);
    expect((await client.sessions.list()).items).toEqual(sessions);
    const runs = await client.chains.runs(parent.head_chain_id);
    expect(runs.items.map(({ status }) => status)).toEqual(["completed", "completed"]);
    const again = await client.runs.start(
      { session_id: "shopping", input: { text: '/tool price {"text":"tea"}\n/then\n/say still here' } },
      { wait: true },
    );
    expect([again.status, again.output?.content]).toEqual(["completed", "still here"]);
    const { items } = await client.sessions.entries("shopping", {
      after: before.parent.at(-1)!.id,
      limit: 1000,
    });
    const request = items.find(({ payload }) => payload.name === "llm.call.request");
    const { messages_ref } = request!.payload.data as { messages_ref: { count: number } };
    const replies = before.parent.filter(({ kind }) => kind === "message" || kind === "tool_result").length;
    expect(messages_ref.count).toBeGreaterThan(replies);
    for (const { id } of [parent, child])
      expect(await client.chains.verify((await client.sessions.get(id)).head_chain_id)).toEqual({
        valid: true,
        broken: null,
      });
  },
);

verifies("api.sessions", "a second reader can follow and cancel a run that awaits approval", async () => {
  const run = await client.runs.start({
    session_id: "waiting",
    input: { text: '/tool buy {"text":"gold"}\n/then\n/say bought' },
  });
  expect(run.status).toBe("running");
  await expect.poll(async () => (await client.approvals.list({ status: "pending" })).items.length).toBe(1);
  const updates: RunUpdate[] = [];
  for await (const update of client.runs.watch(run.id)) {
    updates.push(update);
    // The request was published before this reader connected, and the reader still receives it.
    if ("event" in update && update.event.kind === "approval.request") await client.runs.cancel(run.id);
  }
  expect(updates.at(-1)).toMatchObject({ ended: { id: run.id, status: "cancelled" } });
  // The turn ends immediately; the outcome of its call is written when the call has stopped.
  const listKinds = async () => {
    const blocks: Block[] = (await client.chains.blocks(run.chain_id)).items;
    return blocks.map(({ kind }) => kind).toSorted();
  };
  await expect.poll(listKinds).toEqual(["input", "response", "tool_call", "tool_result"]);
  expect((await client.approvals.list({ status: "pending" })).items).toEqual([]);
});

verifies(
  "bus.session-ids",
  "rejects session ids of the kernel over HTTP, /api and WebSocket, and allows reading entries of a sub-agent",
  async () => {
    const ids = ["kernel", "_bridge:web", "shopping::agent::1"];
    for (const id of ids) {
      const part = encodeURIComponent(id);
      const requests = [
        gateway.http("POST", "/v1/sessions", { session_id: id }),
        gateway.http("POST", `/v1/sessions/${part}/messages`, { text: "x" }),
        gateway.http("POST", "/v1/runs", { session_id: id, input: { text: "x" } }),
        gateway.http("POST", `/api/sessions/${part}/message`, { text: "x" }),
        gateway.http("POST", "/api/sessions/shopping/fork", { child_id: id }),
      ];
      for (const { status } of await Promise.all(requests)) expect(status, id).toBe(400);
    }
    const replies = await sendOverSocket(
      ids.map((session_id) => ({ op: "attach", session_id, since_entry: null })),
    );
    expect(replies.map(({ op, code }) => [op, code])).toEqual(ids.map(() => ["error", "request.invalid"]));
    const all = (await client.sessions.list({ limit: 500 })).items.map(({ id }) => id);
    expect(all.filter((id) => ids.includes(id))).toEqual([]);

    const input = { text: '/tool agent {"goal":"look around"}\n/then\n/say done' };
    for await (const update of client.runs.stream({ session_id: "boss", input })) {
      if ("event" in update && update.event.kind === "approval.request")
        await client.approvals.answer(String(update.event.payload.id), { response: "approve" });
      if ("ended" in update) expect(update.ended.status).toBe("completed");
    }
    const child = (await client.sessions.list({ limit: 500 })).items.find(({ id }) =>
      id.startsWith("boss::agent::"),
    );
    expect(child).toBeDefined();
    const { items } = await client.sessions.entries(child!.id);
    expect(JSON.stringify(items)).toContain("look around");
    const { status } = await gateway.http("POST", `/v1/sessions/${encodeURIComponent(child!.id)}/messages`, {
      text: "forged",
    });
    expect(status).toBe(400);
  },
);

/** Sends the operations over /ws and returns one reply for each. */
async function sendOverSocket(ops: object[]): Promise<{ op: string; code?: string }[]> {
  const ws = new WebSocket(`${gateway.url.replace("http", "ws")}/ws`, {
    headers: { authorization: `Bearer ${gateway.token}` },
  });
  const replies: { op: string; code?: string }[] = [];
  await new Promise<void>((resolve, reject) => {
    ws.on("error", reject);
    ws.on("open", () => {
      for (const op of ops) ws.send(JSON.stringify(op));
    });
    ws.on("message", (data: Buffer) => {
      if (replies.push(JSON.parse(data.toString()) as (typeof replies)[number]) === ops.length) resolve();
    });
  });
  ws.close();
  return replies;
}
