import { type Entry, type KernelPlugin, tokenUsage } from "@backplane/contract";
import { admin, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { split } from "../../src/loop/compaction.ts";
import { createTestSession, type TestSession } from "./test-session.ts";

const WINDOW = 4_000;

/** Opens a session whose model has a small window, and nearly fills the window. */
async function openFull(): Promise<TestSession> {
  const fixture = await createTestSession();
  await fixture.kernel.config.set(admin, { "providers.llm-echo.context_window": WINDOW });
  for (let n = 0; n < 6; n++) await fixture.say(`/say ${n} ${"lorem ipsum dolor ".repeat(60)}`);
  return fixture;
}

const compactions = (fixture: TestSession) =>
  fixture.events.filter(({ kind }) => kind.startsWith("session.compaction."));

verifies(
  "compact.auto",
  "replaces older entries with a summary on a new chain at 80 % of the window",
  async () => {
    const fixture = await openFull();
    const before = await fixture.kernel.sessions.get(user, { session_id: "s1" });
    expect(compactions(fixture)).toEqual([]);
    for (let n = 0; compactions(fixture).length === 0 && n < 6; n++)
      await fixture.say(`/say ${n} ${"dolor sit amet ".repeat(60)}`);
    const [started, completed] = compactions(fixture);
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
    const asked = fixture.events
      .filter(({ kind, session_id }) => kind === "llm.call.request" && session_id === "s1")
      .at(-1)!;
    const messages = asked.payload.messages as { role: string; content: string }[];
    expect(messages.filter(({ role }) => role === "system")).toHaveLength(2);
    expect(JSON.stringify(messages).length / 4).toBeLessThan(WINDOW * 0.8);
    // The compaction can be undone, because no entry was rewritten.
    await fixture.kernel.sessions.undoCompaction(user, { session_id: "s1" });
    expect(await fixture.kernel.sessions.get(user, { session_id: "s1" })).toMatchObject({
      head_chain_id: before.head_chain_id,
    });
  },
);

/** Answers every request except the request for a summary. */
const brittle: KernelPlugin = {
  name: "brittle",
  version: "1.0.0",
  category: "llm-provider",
  subscriptions: () => ["llm.call.request"],
  async onEvent(event, ctx) {
    const { messages } = event.payload as { messages: { content: string }[] };
    const usage = { ...tokenUsage() };
    const request_id = event.id;
    if (messages.at(-1)!.content.startsWith("Summarise")) {
      const failure = { error: "no", kind: "status" as const, status_code: 400, request_id };
      await ctx.emit("llm.call.error", failure, event);
    } else await ctx.emit("llm.call.response", { text: "through", usage, request_id }, event);
  },
};

verifies(
  "compact.auto",
  "tries a failing compaction three times, reports it once, and continues the turn",
  async () => {
    const fixture = await createTestSession({ plugins: [brittle] });
    await fixture.kernel.config.set(admin, {
      "providers.brittle.plugin": "brittle",
      "providers.brittle.context_window": 2_000,
      provider: "brittle",
    });
    const runs = [];
    for (let n = 0; n < 3; n++) runs.push(await fixture.say(`${n} ${"lorem ipsum dolor ".repeat(150)}`));
    expect(runs.map(({ output }) => output?.content)).toEqual(["through", "through", "through"]);
    const told = compactions(fixture);
    expect(told.slice(0, 2).map(({ kind }) => kind)).toEqual([
      "session.compaction.started",
      "session.compaction.failed",
    ]);
    expect(told[1]!.payload).toMatchObject({ target_session_id: "s1", error: expect.stringContaining("no") });
    const asked = fixture.events.filter(
      ({ kind, session_id }) => kind === "llm.call.error" && session_id !== "s1",
    );
    expect(asked).toHaveLength((told.length / 2) * 3);
    const { items } = await fixture.kernel.chains.list(user, { session_id: "s1" }, { limit: 5 });
    expect(items.map(({ origin }) => origin)).toEqual(["start"]);
  },
);

test("splits before a user's message and always keeps the last one", () => {
  const say = (id: number, role: string, length: number): Entry => ({
    id,
    kind: "message",
    payload: { role, content: "x".repeat(length) },
    meta: {},
    date: "2026-01-01T00:00:00Z",
  });
  const entries = [
    say(1, "user", 400),
    say(2, "assistant", 400),
    say(3, "user", 400),
    say(4, "assistant", 400),
  ];
  const sizes = (target: number) => split(entries, target).recent.map(({ id }) => id);
  expect(sizes(1_000)).toEqual([3, 4]);
  expect(sizes(10)).toEqual([3, 4]);
  expect(split([entries[0]!, entries[1]!], 10).recent).toEqual([]);
});
