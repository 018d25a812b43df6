import type { KernelPlugin } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import { ADMIN } from "../support/callers.ts";
import { readStream } from "../support/read-stream.ts";
import { ADMIN_TOKEN, startApi, type TestApi, type TestResponse } from "../support/start-api.ts";

const shop: KernelPlugin = {
  name: "shop",
  version: "1.0.0",
  category: "tool",
  subscriptions: () => [],
  onLoad: (ctx) =>
    ctx.registerTool({
      name: "buy",
      description: "Spends money.",
      parameters: { type: "object" },
      requires_approval: true,
      run: () => ({ ok: true, brief: "bought", display: { kind: "text", text: "bread" } }),
    }),
};

let api: TestApi;
let url: string;
beforeAll(async () => {
  api = await startApi({ plugins: await loadBundledPlugins("strategy-react", "llm-echo", shop) });
  url = await api.api.listen({ host: "127.0.0.1", port: 0 });
});
afterAll(() => api.close());

const statusAndCode = ({ status, json }: TestResponse) => [status, json?.error?.code];
const run = (session_id: string, text: string, query = "?wait=true") =>
  api.call("POST", `/v1/runs${query}`, { body: { session_id, input: { text } } });
/** Enough messages for a compaction in a small context window. */
const sendLongMessages = async (session_id: string) => {
  await api.kernel.config.set(ADMIN, { "providers.llm-echo.context_window": 10_000 });
  for (const n of [1, 2, 3]) await run(session_id, `${"many words ".repeat(400)}${n}`);
};
const stream = (path: string, init: RequestInit = {}) =>
  readStream(url + path, {
    ...init,
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, ...(init.headers as Record<string, string>) },
  });

test("creates, reads, changes, branches and resets a session, and sends it messages", async () => {
  const created = await api.call("POST", "/v1/sessions", {
    body: { session_id: "support-42", metadata: { topic: "billing" } },
  });
  expect([created.status, created.json.id, created.json.workspace]).toEqual([201, "support-42", "default"]);
  expect(
    statusAndCode(await api.call("POST", "/v1/sessions", { body: { session_id: "support-42" } })),
  ).toEqual([409, "session.conflict"]);
  const named = await api.call("POST", "/v1/sessions?workspace=west", { body: {} });
  expect([named.status, named.json.workspace]).toEqual([201, "west"]);

  const sent = await api.call("POST", "/v1/sessions/support-42/messages", { body: { text: "hello" } });
  expect([sent.status, Object.keys(sent.json)]).toEqual([202, ["entry_id", "event_id", "run_id"]]);
  expect((await stream(`/v1/runs/${sent.json.run_id}/events`)).at(-1)?.event).toBe("run");
  const page = await api.call("GET", "/v1/sessions/support-42/entries?limit=2");
  expect(page.json.items.map(({ id }: { id: number }) => id)).toEqual([1, 2]);
  const rest = await api.call("GET", `/v1/sessions/support-42/entries?after=${page.json.next}&limit=1000`);
  expect([rest.json.items[0].id, rest.json.next]).toEqual([3, null]);
  const kinds = [...page.json.items, ...rest.json.items].filter(({ kind }) => kind === "message");
  expect(kinds.map(({ payload }) => payload.role)).toEqual(["user", "assistant"]);

  const patched = await api.call("PATCH", "/v1/sessions/support-42", {
    body: { metadata: { topic: null, mood: "good" } },
  });
  expect(patched.json.metadata).toEqual({ mood: "good" });
  const listed = await api.call("GET", "/v1/sessions?workspace=west");
  expect(listed.json.items).toEqual([named.json]);
  expect((await api.call("GET", "/v1/sessions?limit=1")).json.next).not.toBeNull();

  const child = await api.call("POST", "/v1/sessions/support-42:branch", {
    body: { child_id: "support-43", at: sent.json.entry_id },
  });
  expect([child.status, child.json.parent_session_id]).toEqual([201, "support-42"]);
  const inherited = await api.call("GET", "/v1/sessions/support-43/entries");
  expect(inherited.json.items.map(({ id }: { id: number }) => id)).toEqual([1, sent.json.entry_id]);
  expect((await api.call("POST", "/v1/sessions/support-42:branch")).status).toBe(201);

  const reset = await api.call("POST", "/v1/sessions/support-42:reset");
  expect(reset.json.head_chain_id).not.toBe(patched.json.head_chain_id);
  expect(reset.json.archive_path).toBe(`chain:${patched.json.head_chain_id}`);
  const closed = await api.call("POST", "/v1/sessions/support-42:reset", { body: { archive: false } });
  expect([closed.status, closed.json.archive_path]).toEqual([200, null]);
  const anchor = { name: "shipped", state: { summary: "The order was shipped." } };
  const handoff = await api.call("POST", "/v1/sessions/support-42:handoff", { body: anchor });
  expect(handoff).toMatchObject({ status: 201, json: { kind: "anchor", payload: anchor } });
  const idle = await api.call("POST", "/v1/sessions/support-42:interrupt");
  expect(idle.json).toEqual({ interrupted: false });
});

test("accepts session ids with colons, slashes and umlauts", async () => {
  for (const id of ["a:b", "team/7", "grün", "x::y", "q?z%41"]) {
    const created = await api.call("POST", "/v1/sessions", { body: { session_id: id } });
    expect([created.status, created.json.id]).toEqual([201, id]);
    const part = encodeURIComponent(id);
    expect((await api.call("GET", `/v1/sessions/${part}`)).json.id).toBe(id);
    const child = await api.call("POST", `/v1/sessions/${part}:branch`);
    expect([child.status, child.json.parent_session_id]).toEqual([201, id]);
  }
});

test("forks a chain, adds blocks of all six kinds, verifies it and lists its runs", async () => {
  const { json: done } = await run("chains-1", "one");
  expect(done.status).toBe("completed");
  const { json: session } = await api.call("GET", "/v1/sessions/chains-1");
  const { json: head } = await api.call("GET", `/v1/chains/${session.head_chain_id}`);
  expect([head.session_id, head.origin]).toEqual(["chains-1", "start"]);
  expect((await api.call("GET", `/v1/chains/${head.id}/runs`)).json.items).toEqual([done]);

  const second = await api.call("POST", "/v1/chains", { body: { session_id: "chains-1" } });
  expect([second.status, second.json.parent_chain_id]).toEqual([201, head.id]);
  const fork = await api.call("POST", `/v1/chains/${head.id}:fork`, {
    body: { child_id: "chains-2", at: 2 },
  });
  expect([fork.status, fork.json.session_id, fork.json.fork_entry_id]).toEqual([201, "chains-2", 2]);
  const listed = await api.call("GET", "/v1/chains?session_id=chains-1");
  expect(listed.json.items.map(({ id }: { id: string }) => id)).toEqual([second.json.id, head.id]);
  expect(statusAndCode(await api.call("GET", "/v1/chains"))).toEqual([400, "request.invalid"]);
  expect(statusAndCode(await api.call("GET", "/v1/chains?session_id=nobody"))).toEqual([
    404,
    "session.not_found",
  ]);

  const text = (content: string) => [{ type: "text", text: content }];
  const blocks = [
    { kind: "system", content: text("be kind") },
    { kind: "input", content: text("what now?") },
    { kind: "thinking", content: text("hm") },
    { kind: "tool_call", tool_call_id: "c1", name: "look", input: { at: 1 } },
    { kind: "tool_result", tool_call_id: "c1", structured_output: { found: true } },
    { kind: "response", content: text("this") },
  ];
  const path = `/v1/chains/${fork.json.id}/blocks`;
  const added = await api.call("POST", path, { body: { blocks } });
  expect([added.status, added.json.items.length]).toEqual([201, 6]);
  const all = await api.call("GET", path);
  expect(all.json.items.map(({ kind }: { kind: string }) => kind)).toEqual([
    "input",
    ...blocks.map(({ kind }) => kind),
  ]);
  expect(all.json.next).toBeNull();
  const paged: unknown[] = [];
  for (let after: string | null = "0"; after !== null; ) {
    const page: TestResponse = await api.call("GET", `${path}?limit=2&after=${after}`);
    paged.push(...page.json.items);
    after = page.json.next;
  }
  expect(paged).toEqual(all.json.items);
  expect(statusAndCode(await api.call("POST", path, { body: { blocks: [{ kind: "memo" }] } }))).toEqual([
    400,
    "request.invalid",
  ]);
  const verified = await api.call("GET", `/v1/chains/${fork.json.id}:verify`);
  expect(verified.json).toEqual({ valid: true, broken: null });
});

test("waits for, streams, follows, resumes and cancels runs", async () => {
  const waited = await run("runs-1", "/say hi there");
  expect([waited.status, waited.json.status, waited.json.output.content]).toEqual([
    200,
    "completed",
    "hi there",
  ]);
  expect((await api.call("GET", `/v1/runs/${waited.json.id}`)).json).toEqual(waited.json);
  const on_head = await api.call("POST", "/v1/runs?wait=20", {
    body: { chain_id: waited.json.chain_id, input: { text: "/say two" } },
  });
  expect(on_head.json.output.content).toBe("two");

  const body = JSON.stringify({
    session_id: "runs-1",
    input: { text: "/think First I count.\n/say one two three" },
  });
  const headers = { "content-type": "application/json", accept: "text/event-stream" };
  const items = await stream("/v1/runs", { method: "POST", body, headers });
  expect(items[0]?.event).toBe("run.started");
  expect(items[1]?.event).toBe("user.message.received");
  const last = items.at(-1)!;
  const ended = JSON.parse(last.data);
  expect([last.event, ended.status, ended.output.content]).toEqual(["run", "completed", "one two three"]);
  const deltas = items.filter(({ event }) => event === "assistant.message.delta");
  const texts = deltas.map(({ data }) => JSON.parse(data).event.payload);
  const whole = texts.reduce((sum, { catch_up, content }) => (catch_up ? content : sum + content), "");
  expect(whole).toBe("one two three");
  const thoughts = items.filter(({ event }) => event === "llm.call.delta");
  expect(thoughts.map(({ data }) => JSON.parse(data).event.payload.thinking).join("")).toBe("First I count.");
  expect(items.at(-2)).toMatchObject({ event: "assistant.message.done", id: String(ended.output.entry_id) });

  // The replay from the tape has the same entries with the same ids, and none of earlier runs.
  const expected = items.filter(({ id }) => id !== null).map(({ id, event }) => [id, event]);
  const replayed = await stream(`/v1/runs/${ended.id}/events`);
  expect(replayed.filter(({ id }) => id !== null).map(({ id, event }) => [id, event])).toEqual(expected);
  const resumed = await stream(`/v1/runs/${ended.id}/events`, {
    headers: { "last-event-id": expected[0]![0]! },
  });
  expect(resumed.map(({ id, event }) => [id, event])).toEqual([...expected.slice(1), [null, "run"]]);
  const { json: first } = await api.call("GET", `/v1/runs/${waited.json.id}`);
  const first_replay = await stream(`/v1/runs/${first.id}/events`);
  expect(JSON.parse(first_replay.at(-1)!.data)).toEqual(first);
  expect(JSON.parse(first_replay[1]!.data).event.payload.text).toBe("/say hi there");
  expect(first_replay.filter(({ event }) => event === "user.message.received")).toHaveLength(1);

  const slow = await run("runs-2", "/slow 20000\n/say one two", "");
  expect([slow.status, slow.json.status]).toEqual([202, "running"]);
  const followed = stream(`/v1/runs/${slow.json.id}/events`);
  const cancelled = await api.call("POST", `/v1/runs/${slow.json.id}:cancel`);
  expect([cancelled.status, cancelled.json.status]).toEqual([200, "cancelled"]);
  expect(JSON.parse((await followed).at(-1)!.data)).toEqual(cancelled.json);
  expect(statusAndCode(await api.call("POST", `/v1/runs/${slow.json.id}:cancel`))).toEqual([
    409,
    "run.ended",
  ]);
  for (const wrong of [{ input: { text: "x" } }, { session_id: "a", chain_id: "b", input: { text: "x" } }])
    expect(statusAndCode(await api.call("POST", "/v1/runs", { body: wrong }))).toEqual([
      400,
      "request.invalid",
    ]);
});

test("sends a pending approval request once to a client that connects later", async () => {
  const { json: waiting } = await run("asks-1", "/tool buy\n/then\n/say bought", "");
  await expect
    .poll(async () => (await api.call("GET", "/v1/approvals?status=pending")).json.items.length)
    .toBe(1);
  const requests: string[] = [];
  const items = await readStream(`${url}/v1/runs/${waiting.id}/events`, {
    headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    each({ event, data }) {
      if (event !== "approval.request") return;
      const { payload } = JSON.parse(data).event;
      expect(payload).toMatchObject({ tool_name: "buy", target_session_id: "asks-1" });
      requests.push(payload.id);
      void api.call("POST", `/v1/approvals/${payload.id}:answer`, { body: { response: "approve" } });
    },
  });
  expect(requests).toHaveLength(1);
  expect(JSON.parse(items.at(-1)!.data)).toMatchObject({
    status: "completed",
    output: { content: "bought" },
  });
});

test("follows all events of a session, and does not create a missing one", async () => {
  await run("watch-1", "/say before");
  const stop = new AbortController();
  const event_kinds: string[] = [];
  const watching = readStream(`${url}/v1/sessions/watch-1/events?since_entry=0`, {
    headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    signal: stop.signal,
    each({ event }) {
      event_kinds.push(event);
      if (event === "session.replay.done") void run("watch-1", "/say after");
      if (event_kinds.includes("session.replay.done") && event === "assistant.message.done") stop.abort();
    },
  });
  const items = await watching;
  const ids = items.filter(({ id }) => id !== null).map(({ id }) => Number(id));
  expect(ids).toEqual(ids.map((_, n) => n + 1));
  expect(event_kinds.filter((kind) => kind === "session.replay.done")).toHaveLength(1);
  expect(event_kinds).toContain("assistant.message.delta");
  await expect.poll(() => api.kernel.fanout.stats().connections).toBe(0);
  expect(statusAndCode(await api.call("GET", "/v1/sessions/nobody/events"))).toEqual([
    404,
    "session.not_found",
  ]);
  expect(statusAndCode(await api.call("GET", "/v1/sessions/nobody"))).toEqual([404, "session.not_found"]);
});

test("compacts a session onto a new chain and undoes the compaction once", async () => {
  await sendLongMessages("compact-1");
  const { json: before } = await api.call("GET", "/v1/sessions/compact-1");
  const created = await api.call("POST", "/v1/compactions", { body: { session_id: "compact-1" } });
  expect(created.status, created.text).toBe(201);
  expect(created.json.chain).toMatchObject({ origin: "compaction", parent_chain_id: before.head_chain_id });
  expect(created.json.source.chain_id).toBe(before.head_chain_id);
  expect(created.json.tokens_after).toBeLessThan(created.json.tokens_before);
  const listed = await api.call("GET", "/v1/compactions?session_id=compact-1");
  expect(listed.json.items).toEqual([created.json]);
  const undone = await api.call("POST", `/v1/compactions/${created.json.chain.id}:undo`);
  expect([undone.status, undone.json.id]).toEqual([200, before.head_chain_id]);
  expect(statusAndCode(await api.call("POST", `/v1/compactions/${created.json.chain.id}:undo`))).toEqual([
    409,
    "chain.changed",
  ]);
  expect(statusAndCode(await api.call("POST", `/v1/compactions/${before.head_chain_id}:undo`))).toEqual([
    400,
    "request.invalid",
  ]);
});

verifies(
  "compactor.loss",
  "shows what a compaction did with each entry, and its chain from the summary on",
  async () => {
    await sendLongMessages("loss-1");
    const created = await api.call("POST", "/v1/compactions", {
      body: { session_id: "loss-1", compactor: "model", policy: { retain_system: false } },
    });
    expect(created.status, created.text).toBe(201);
    const id = created.json.chain.id as string;
    expect((await api.call("GET", `/v1/compactions/${id}`)).json).toEqual(created.json);
    const all = await api.call("GET", `/v1/compactions/${id}/entries`);
    const { loss } = created.json;
    expect(all.json.items).toHaveLength(loss.kept + loss.condensed + loss.dropped);
    expect(all.json.items[0]).toMatchObject({ outcome: "dropped", tokens_after: 0 });
    const page = await api.call("GET", `/v1/compactions/${id}/entries?limit=2`);
    expect(page.json).toEqual({
      items: all.json.items.slice(0, 2),
      next: String(all.json.items[1].entry_id),
    });
    const rest = await api.call("GET", `/v1/compactions/${id}/entries?after=${page.json.next}`);
    expect(rest.json).toEqual({ items: all.json.items.slice(2), next: null });
    expect(statusAndCode(await api.call("GET", `/v1/compactions/${created.json.source.chain_id}`))).toEqual([
      400,
      "request.invalid",
    ]);
    const blocks = (query: string) => api.call("GET", `/v1/chains/${id}/blocks${query}`);
    const derived = (await blocks("")).json.items;
    expect(derived[0]).toMatchObject({
      kind: "system",
      content: [{ type: "text", text: created.json.summary }],
    });
    expect((await blocks("?after=0")).json.items.length).toBeGreaterThan(derived.length);
  },
);

verifies("compactor.pins", "pins, lists and unpins entries over HTTP", async () => {
  await run("pins-1", "/say keep this");
  const { json } = await api.call("GET", "/v1/sessions/pins-1/entries");
  const entry_id = json.items.find((item: { kind: string }) => item.kind === "message").id;
  const path = "/v1/sessions/pins-1/pins";
  const pinned = await api.call("POST", path, { body: { entry_id } });
  expect([pinned.status, pinned.json.text]).toEqual([201, "/say keep this"]);
  await api.call("POST", path, { body: { entry_id } });
  expect((await api.call("GET", path)).json).toEqual({ items: [pinned.json], next: null });
  expect(statusAndCode(await api.call("POST", path, { body: { entry_id: 1 } }))).toEqual([
    400,
    "request.invalid",
  ]);
  for (let n = 0; n < 2; n++) expect((await api.call("DELETE", `${path}/${entry_id}`)).status).toBe(204);
  expect((await api.call("GET", path)).json.items).toEqual([]);
  expect(statusAndCode(await api.call("GET", "/v1/sessions/nobody/pins"))).toEqual([
    404,
    "session.not_found",
  ]);
});

verifies(
  "api.sessions",
  "honors Idempotency-Key for sessions, messages, chains, blocks, runs and compactions",
  async () => {
    await sendLongMessages("once-1");
    const { json: session } = await api.call("GET", "/v1/sessions/once-1");
    const chain = session.head_chain_id as string;
    const creates: [string, unknown, unknown][] = [
      ["/v1/sessions", { metadata: { a: 1 } }, { metadata: { a: 2 } }],
      ["/v1/sessions/once-1:branch", {}, { at: 1 }],
      ["/v1/sessions/once-1/messages", { text: "/say x" }, { text: "/say y" }],
      ["/v1/chains", { session_id: "once-1" }, { session_id: "once-1", at: 1 }],
      [`/v1/chains/${chain}:fork`, {}, { at: 1 }],
      [
        `/v1/chains/${chain}/blocks`,
        { blocks: [{ kind: "system", content: [] }] },
        { blocks: [{ kind: "input", content: [] }] },
      ],
      [
        "/v1/runs?wait=true",
        { session_id: "once-2", input: { text: "/say z" } },
        { session_id: "once-2", input: { text: "/say w" } },
      ],
      ["/v1/compactions", { session_id: "once-1" }, { session_id: "once-2" }],
    ];
    for (const [n, [path, body, other]] of creates.entries()) {
      const headers = { "idempotency-key": `key-${n}` };
      const first = await api.call("POST", path, { body, headers });
      expect(first.status, `${path} ${first.text}`).toBeLessThan(300);
      const again = await api.call("POST", path, { body, headers });
      expect([again.status, again.json, again.headers["idempotency-replayed"]], path).toEqual([
        first.status,
        first.json,
        "true",
      ]);
      expect(statusAndCode(await api.call("POST", path, { body: other, headers })), path).toEqual([
        409,
        "idempotency.conflict",
      ]);
      // Waits for the turn of a message, so that no turn is running when the next request is sent.
      if (first.json.run_id !== undefined) await stream(`/v1/runs/${first.json.run_id}/events`);
    }
    const { json: runs } = await api.call("GET", `/v1/chains/${chain}/runs`);
    const texts = runs.items.map((item: { input: { text: string } }) => item.input.text);
    expect(texts.filter((text: string) => text === "/say x")).toHaveLength(1);
  },
);
