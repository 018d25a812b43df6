import { afterAll, beforeAll, expect, test } from "vitest";
import { loadBundledPlugins } from "../../../api/test/support/bundled-plugins.ts";
import { ADMIN_TOKEN, startApi, type TestApi } from "../../../api/test/support/start-api.ts";
import { type Client, createClient, type RunUpdate, type SessionUpdate } from "../../src/index.ts";

let api: TestApi;
let client: Client;
let url: string;
beforeAll(async () => {
  api = await startApi({ plugins: await loadBundledPlugins("web", "strategy-react", "llm-echo") });
  url = await api.api.listen({ host: "127.0.0.1", port: 0 });
  client = createClient({ url, token: ADMIN_TOKEN });
});
afterAll(() => api.close());

const input = (text: string) => ({ text });

test("creates, reads and changes sessions, chains and runs", async () => {
  const created = await client.sessions.create({ session_id: "a/b", workspace: "west" });
  expect(await client.sessions.get("a/b", { workspace: "west" })).toEqual(created);
  expect((await client.sessions.list({ workspace: "west" })).items).toEqual([created]);
  const patched = await client.sessions.patch("a/b", { mood: "good" }, { workspace: "west" });
  expect(patched.metadata).toEqual({ mood: "good" });
  const { run_id, entry_id } = await client.sessions.message("a/b", input("/say hi"), { workspace: "west" });
  const run = await client.runs.wait(run_id);
  expect([run.status, run.output?.content]).toEqual(["completed", "hi"]);
  const { items } = await client.sessions.entries("a/b", {
    workspace: "west",
    after: entry_id - 1,
    limit: 1,
  });
  expect(items[0]?.payload).toMatchObject({ role: "user", content: "/say hi" });
  const child = await client.sessions.branch("a/b", { child_id: "c", at: entry_id }, { workspace: "west" });
  expect(child.parent_session_id).toBe("a/b");
  expect(await client.sessions.interrupt("a/b", { workspace: "west" })).toBe(false);

  const started = await client.runs.start({ session_id: "s", input: input("/say yes") }, { wait: true });
  expect(await client.runs.get(started.id)).toEqual(started);
  const chain = await client.chains.get(started.chain_id);
  expect((await client.chains.list({ session_id: "s" })).items).toEqual([chain]);
  expect((await client.chains.runs(chain.id)).items).toEqual([started]);
  const fork = await client.chains.fork(chain.id, { child_id: "s2" });
  const second = await client.chains.create({ session_id: "s" }, { idempotency_key: "one" });
  expect(await client.chains.create({ session_id: "s" }, { idempotency_key: "one" })).toEqual(second);
  const added = await client.chains.addBlocks(fork.id, [
    { kind: "input", content: [{ type: "text", text: "x" }] },
  ]);
  expect((await client.chains.blocks(fork.id)).items.at(-1)).toEqual(added[0]);
  expect(await client.chains.verify(fork.id)).toEqual({ valid: true, broken: null });
  expect((await client.sessions.reset("s")).head_chain_id).not.toBe(chain.id);
  await expect(client.runs.cancel(started.id)).rejects.toMatchObject({ code: "run.ended" });
  expect((await client.compactions.list({ session_id: "s" })).items).toEqual([]);
  await expect(client.compactions.undo(chain.id)).rejects.toMatchObject({ code: "request.invalid" });
});

/** A fetch that interrupts the first event stream after the first event that has an id. */
function createInterruptingFetch(): { fetch: typeof fetch; interruptions(): number } {
  let interruptions = 0;
  return {
    interruptions: () => interruptions,
    async fetch(target, init) {
      const response = await fetch(target, init);
      if (!(target as string).includes("/events") || interruptions > 0) return response;
      const reader = response.body!.getReader();
      let text = "";
      const body = new ReadableStream({
        async pull(controller) {
          const { value, done } = await reader.read();
          if (done) return controller.close();
          text += new TextDecoder().decode(value);
          const at = /^id: \d+\n(?:.*\n)+?\n/m.exec(text);
          if (at === null) return;
          controller.enqueue(new TextEncoder().encode(text.slice(0, at.index + at[0].length)));
          interruptions++;
          await reader.cancel();
          // The client reads the enqueued events before the connection breaks.
          setImmediate(() => controller.error(new Error("the connection broke")));
        },
      });
      return new Response(body, response);
    },
  };
}

test("streams a run across a lost connection, its entries once and in order", async () => {
  const interrupting = createInterruptingFetch();
  const interrupted_client = createClient({ url, token: ADMIN_TOKEN, fetch: interrupting.fetch });
  const updates: RunUpdate[] = [];
  const body = { session_id: "stream", input: input("/slow 5\n/say one two three four") };
  for await (const update of interrupted_client.runs.stream(body, { retry_ms: 1 })) updates.push(update);
  expect(interrupting.interruptions()).toBe(1);
  const ended = updates.at(-1) as { ended: { output: { content: string; entry_id: number } } };
  expect(ended.ended.output.content).toBe("one two three four");
  const ids = updates.flatMap((update) =>
    "event" in update && update.entry_id !== null ? [update.entry_id] : [],
  );
  expect(ids).toEqual([...new Set(ids)].toSorted((a, b) => a - b));
  expect(ids.at(-1)).toBe(ended.ended.output.entry_id);
  expect(updates.filter((update) => "started" in update)).toHaveLength(1);
});

test("watches a session from a cursor across a lost connection, each entry once", async () => {
  await client.runs.start({ session_id: "watch", input: input("/say before") }, { wait: true });
  const interrupting = createInterruptingFetch();
  const interrupted_client = createClient({ url, token: ADMIN_TOKEN, fetch: interrupting.fetch });
  const stop = new AbortController();
  const updates: SessionUpdate[] = [];
  let requested = false;
  for await (const update of interrupted_client.watchSession(
    { session_id: "watch" },
    { since_entry: 0, signal: stop.signal, retry_ms: 1 },
  )) {
    updates.push(update);
    const { kind } = update.event;
    if (kind === "session.replay.done" && !requested) {
      requested = true;
      await client.sessions.message("watch", input("/say after"));
    }
    if (kind === "assistant.message.done") stop.abort();
  }
  expect(interrupting.interruptions()).toBe(1);
  const ids = updates.flatMap(({ entry_id }) => (entry_id === null ? [] : [entry_id]));
  expect(ids).toEqual(ids.map((_, n) => n + 1));
  expect(updates.at(-1)?.event.payload).toMatchObject({ content: "after" });
});

test("watches new events without a cursor, and rejects an unknown session", async () => {
  const stop = new AbortController();
  const kinds: string[] = [];
  for await (const { event } of client.watchSession({ session_id: "watch" }, { signal: stop.signal })) {
    kinds.push(event.kind);
    if (event.kind === "session.replay.done") await client.sessions.message("watch", input("/say new"));
    if (event.kind === "assistant.message.done") stop.abort();
  }
  expect(kinds).not.toContain("session.replay.entry");
  await expect(client.watchSession({ session_id: "nobody" }).next()).rejects.toMatchObject({
    code: "session.not_found",
  });
});

test("manages plugins and providers", async () => {
  const plugins = await client.plugins.list();
  expect(plugins.map(({ name }) => name).toSorted()).toEqual(["llm-echo", "strategy-react", "web"]);
  const disabled = await client.plugins.setEnabled("llm-echo", false);
  expect(disabled).toMatchObject({
    name: "llm-echo",
    enabled: false,
    trusted: expect.any(Boolean),
    status: "disabled",
  });
  expect((await client.plugins.setEnabled("llm-echo", true)).status).toBe("loaded");
  expect((await client.plugins.reload("llm-echo")).status).toBe("loaded");
  expect((await client.plugins.health()).map(({ status }) => status)).toEqual(["ok", "ok", "ok"]);
  await expect(client.plugins.remove("web")).rejects.toMatchObject({ code: "plugin.bundled" });

  const created = await client.providers.create({ id: "second", plugin: "llm-echo", label: "Two" });
  expect(created).toMatchObject({ id: "second", active: false, label: "Two" });
  expect((await client.providers.patch("second", { label: "Three" })).label).toBe("Three");
  expect(await client.providers.setActive("second")).toEqual({ active: "second", ok: true });
  expect((await client.providers.test("second")).ok).toBe(true);
  await expect(client.providers.remove("second")).rejects.toMatchObject({ details: { status: 409 } });
  await client.providers.setActive("llm-echo");
  await client.providers.remove("second");
  expect((await client.providers.list()).map(({ id }) => id)).toEqual(["llm-echo"]);
});
