import { type Entry, type Json, type KernelPlugin, tokenUsage } from "@backplane/contract";
import { ContextBuilder } from "@backplane/session";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { splitAtUserMessage } from "../../src/compaction/built-in-summary.ts";
import { createTestSession, type TestSession } from "../loop/test-session.ts";

const WINDOW = 4_000;

/** Creates a session whose model has a small window, and nearly fills the window. */
async function createNearlyFullSession(): Promise<TestSession> {
  const fixture = await createTestSession();
  await fixture.kernel.config.set(admin, { "providers.llm-echo.context_window": WINDOW });
  for (let n = 0; n < 6; n++) await fixture.say(`/say ${n} ${"lorem ipsum dolor ".repeat(60)}`);
  return fixture;
}

const compactionEvents = (fixture: TestSession) =>
  fixture.events.filter(({ kind }) => kind.startsWith("session.compaction."));

verifies(
  "compact.auto",
  "replaces older entries with a summary on a new chain when the window is nearly full",
  async () => {
    const fixture = await createNearlyFullSession();
    const before = await fixture.kernel.sessions.get(user, { session_id: "s1" });
    expect(compactionEvents(fixture)).toEqual([]);
    for (let n = 0; compactionEvents(fixture).length === 0 && n < 6; n++)
      await fixture.say(`/say ${n} ${"dolor sit amet ".repeat(60)}`);
    const [started, completed] = compactionEvents(fixture);
    expect(started).toMatchObject({ kind: "session.compaction.started", session_id: "kernel" });
    expect(started!.payload).toMatchObject({ target_session_id: "s1" });
    expect(Number(started!.payload.tokens_before)).toBeGreaterThan(WINDOW * 0.7);
    expect(completed).toMatchObject({
      kind: "session.compaction.completed",
      payload: { target_session_id: "s1" },
    });
    expect(Number(completed!.payload.tokens_after)).toBeLessThanOrEqual(WINDOW * 0.5);
    const after = await fixture.kernel.sessions.get(user, { session_id: "s1" });
    expect(after.head_chain_id).not.toBe(before.head_chain_id);
    const chain = await fixture.kernel.chains.get(user, after.head_chain_id);
    expect(chain).toMatchObject({ origin: "compaction", parent_chain_id: before.head_chain_id });
    expect(await fixture.kernel.chains.verify(user, before.head_chain_id)).toBeNull();
    expect(await fixture.kernel.chains.verify(user, after.head_chain_id)).toBeNull();
    // From now on the context of the model begins with the summary.
    await fixture.say("and?");
    const request = fixture.events
      .filter(({ kind, session_id }) => kind === "llm.call.request" && session_id === "s1")
      .at(-1)!;
    const messages = request.payload.messages as { role: string; content: string }[];
    expect(messages.filter(({ role }) => role === "system")).toHaveLength(2);
    expect(JSON.stringify(messages).length / 4).toBeLessThan(WINDOW * 0.8);
    // The compaction can be undone, because no entry was rewritten.
    await fixture.kernel.sessions.undoCompaction(user, { session_id: "s1" });
    expect(await fixture.kernel.sessions.get(user, { session_id: "s1" })).toMatchObject({
      head_chain_id: before.head_chain_id,
    });
  },
);

const LOREM = `/say ${"lorem ipsum dolor ".repeat(100)}`;

/** The tokens of the context at the first model call of the next turn. */
async function countTokensWith(fixture: TestSession, text: string): Promise<number> {
  const context = new ContextBuilder();
  const meta = { meta: {}, date: "2026-01-01T00:00:00Z" };
  const next = { id: 0, kind: "message" as const, payload: { role: "user", content: text }, ...meta };
  for (const entry of [...(await fixture.tape()), next]) context.add(entry);
  return context.tokens;
}

/** Creates a session in which the returned text, as the next message, fills the window to 80% plus `extra` tokens. */
async function createSessionAtThreshold(extra: number, setUp = async (_fixture: TestSession) => {}) {
  const fixture = await createTestSession();
  await setUp(fixture);
  for (let n = 0; n < 4; n++) await fixture.say(LOREM);
  // The window is a whole number if the number of tokens is a multiple of four.
  let text = LOREM;
  while ((await countTokensWith(fixture, text)) % 4 !== 0) text += " x";
  const tokens = await countTokensWith(fixture, text);
  const window = (tokens - extra) / 0.8;
  await fixture.kernel.config.set(admin, { "providers.llm-echo.context_window": window });
  return { fixture, text, tokens, window };
}

verifies("compact.auto", "compacts at 80% of the window and not before", async () => {
  const below = await createSessionAtThreshold(-4);
  await below.fixture.say(below.text);
  expect(compactionEvents(below.fixture)).toEqual([]);
  const full = await createSessionAtThreshold(0);
  await full.fixture.say(full.text);
  expect(compactionEvents(full.fixture).map(({ kind, payload }) => [kind, payload.tokens_before])).toEqual([
    ["session.compaction.started", full.tokens],
    ["session.compaction.completed", full.tokens],
  ]);
});

verifies("compact.auto", "compacts a conversation that is full of images", async () => {
  const fixture = await createTestSession();
  await fixture.kernel.config.set(admin, { "providers.llm-echo.context_window": WINDOW });
  const attachments = [{ type: "image", data: `iVBORw0KGgo${"A".repeat(40_000)}`, mimeType: "image/png" }];
  for (let n = 0; n < 2; n++) {
    expect(compactionEvents(fixture)).toEqual([]);
    const input = { text: `/say ${n}`, attachments };
    await (await fixture.kernel.runs.start(user, { session_id: "s1", input })).settled;
  }
  expect(compactionEvents(fixture).map(({ kind }) => kind)).toEqual([
    "session.compaction.started",
    "session.compaction.completed",
  ]);
});

verifies(
  "compact.auto",
  "calls the bound compactor instead of the model, with 40% of the window as its target",
  async () => {
    const { fixture, text, window } = await createSessionAtThreshold(0, async (session) => {
      await session.bind(manifest([{ id: "shrink", kind: "compactor", compactor: {} }]));
      const new_block = { kind: "response", content: [{ type: "text", text: "kept" }] };
      session.runner.script = ({ request }) => {
        // The last message has no answer yet, so a compactor has to keep it.
        const { projection } = request.body.source as { projection: { blocks: Json[] } };
        const seed_blocks = [new_block, projection.blocks.at(-1)!];
        return ok({ seed_blocks, summary: { text: "of the compactor" } });
      };
    });
    const run = await fixture.say(text);
    expect(compactionEvents(fixture).map(({ kind, session_id }) => [kind, session_id])).toEqual([
      ["session.compaction.started", "kernel"],
      ["session.compaction.completed", "kernel"],
    ]);
    expect(fixture.runner.requests.map(({ export_id, body }) => [export_id, body.target])).toEqual([
      ["shrink", { max_input_tokens: window * 0.4 }],
    ]);
    const [call] = (await fixture.kernel.invocations.list(user, { export_id: "shrink" }, { limit: 5 })).items;
    expect(call).toMatchObject({ status: "succeeded", session_id: "s1", run_id: run.id });
    // No model call was made for a summary, and the next one has the compactor's result as its context.
    const model_calls = fixture.events.filter(({ kind }) => kind === "llm.call.request");
    expect(new Set(model_calls.map(({ session_id }) => session_id))).toEqual(new Set(["s1"]));
    const messages = model_calls.at(-1)!.payload.messages as object[];
    expect(messages.slice(-3)).toEqual([
      { role: "system", content: "of the compactor" },
      { role: "assistant", content: [{ type: "text", text: "kept" }] },
      { role: "user", content: text },
    ]);
  },
);

/** Answers every request except the request for a summary. */
const failingSummaryProvider: KernelPlugin = {
  name: "brittle",
  version: "1.0.0",
  category: "llm-provider",
  subscriptions: () => ["llm.call.request"],
  async onEvent(event, ctx) {
    const { messages } = event.payload as { messages: { content: string }[] };
    const usage = { ...tokenUsage() };
    const request_id = event.id;
    if (messages.at(-1)!.content.startsWith("Summarize")) {
      const failure = { error: "no", kind: "status" as const, status_code: 400, request_id };
      await ctx.emit("llm.call.error", failure, event);
    } else await ctx.emit("llm.call.response", { text: "through", usage, request_id }, event);
  },
};

verifies(
  "compact.auto",
  "tries a failing compaction three times, reports it once, and continues the turn",
  async () => {
    const fixture = await createTestSession({ plugins: [failingSummaryProvider] });
    await fixture.kernel.config.set(admin, {
      "providers.brittle.plugin": "brittle",
      "providers.brittle.context_window": 2_000,
      provider: "brittle",
    });
    const runs = [];
    for (let n = 0; n < 3; n++) runs.push(await fixture.say(`${n} ${"lorem ipsum dolor ".repeat(150)}`));
    expect(runs.map(({ output }) => output?.content)).toEqual(["through", "through", "through"]);
    const events = compactionEvents(fixture);
    expect(events.slice(0, 2).map(({ kind }) => kind)).toEqual([
      "session.compaction.started",
      "session.compaction.failed",
    ]);
    expect(events[1]!.payload).toMatchObject({
      target_session_id: "s1",
      error: expect.stringContaining("no"),
    });
    const failed_calls = fixture.events.filter(
      ({ kind, session_id }) => kind === "llm.call.error" && session_id !== "s1",
    );
    expect(failed_calls).toHaveLength((events.length / 2) * 3);
    const { items } = await fixture.kernel.chains.list(user, { session_id: "s1" }, { limit: 5 });
    expect(items.map(({ origin }) => origin)).toEqual(["start"]);
  },
);

test("splits before a user's message, keeps the last one, and never keeps the first entry", () => {
  const message = (id: number, role: string, length: number): Entry => ({
    id,
    kind: "message",
    payload: { role, content: "x".repeat(length) },
    meta: {},
    date: "2026-01-01T00:00:00Z",
  });
  const entries = [
    message(1, "user", 400),
    message(2, "assistant", 400),
    message(3, "user", 400),
    message(4, "assistant", 400),
  ];
  const recentIds = (target: number) => splitAtUserMessage(entries, target).recent.map(({ id }) => id);
  expect(recentIds(1_000)).toEqual([3, 4]);
  expect(recentIds(10)).toEqual([3, 4]);
  expect(splitAtUserMessage([entries[0]!, entries[1]!], 10).recent).toEqual([]);
});

verifies("compact.auto", "uses the blocks of the bound compactor as the new context", async () => {
  const fixture = await createTestSession();
  await fixture.bind(manifest([{ id: "shrink", kind: "compactor", compactor: {} }]), {
    policy: { class: "worker" },
  });
  fixture.runner.script = () =>
    ok({
      seed_blocks: [{ kind: "input", content: [{ type: "text", text: "what matters" }] }],
      summary: { text: "they talked" },
    });
  for (let n = 0; n < 3; n++) await fixture.say(`/say ${"words that fill a line ".repeat(40)}`);
  const requests = fixture.events.filter(({ kind }) => kind === "llm.call.request").length;
  const chain = await fixture.kernel.sessions.compact(user, { session_id: "s1" });
  expect(fixture.runner.requests.map(({ export_id, op }) => [export_id, op])).toEqual([
    ["shrink", "compactor.compact"],
  ]);
  expect(fixture.events.filter(({ kind }) => kind === "llm.call.request")).toHaveLength(requests);
  expect(chain.origin).toBe("compaction");
  await fixture.say("and?");
  const { messages } = fixture.events.findLast(({ kind }) => kind === "llm.call.request")!.payload;
  const context_text = JSON.stringify(messages);
  expect([context_text.includes("they talked"), context_text.includes("what matters")]).toEqual([true, true]);
  expect(context_text).not.toContain("words that fill");
});

test("compacts a short conversation on request and rejects one that is too short", async () => {
  const fixture = await createTestSession();
  for (let n = 0; n < 4; n++) await fixture.say(`/say ${"words that fill a line ".repeat(60)}`);
  const chain = await fixture.kernel.sessions.compact(user, { session_id: "s1" });
  expect(chain.origin).toBe("compaction");
  await fixture.say("hi", "s2");
  const short = fixture.kernel.sessions.compact(user, { session_id: "s2" });
  await expect(short).rejects.toMatchObject({ code: "request.invalid" });
});
