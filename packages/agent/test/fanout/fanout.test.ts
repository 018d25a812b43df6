import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { caller, createTestFanout, makeKey, scope, until, upTo } from "./test-fanout.ts";

verifies(
  "fanout.attach",
  "sends the entries after the cursor, one replay.done, then live entries with their ids",
  async () => {
    const fixture = await createTestFanout();
    await fixture.sessions.create(makeKey());
    for (const text of ["one", "two", "three"]) await fixture.say(text);
    const late = await fixture.watch({ since: 2 });
    const from_start = await fixture.watch({ since: 0 });
    const without_replay = await fixture.watch();
    await until(() => [late, from_start, without_replay].every((watcher) => watcher.replays().length === 1));
    await fixture.say("four");
    await fixture.idle();
    expect([late.ids(), from_start.ids(), without_replay.ids()]).toEqual([[3, 4, 5], upTo(5), [5]]);
    expect([late, from_start, without_replay].map((watcher) => watcher.replays())).toEqual([[2], [4], [0]]);
    expect(from_start.ops[0]).toMatchObject({
      op: "event",
      session_id: "s",
      entry_id: 1,
      event: {
        kind: "session.replay.entry",
        session_id: "kernel",
        source: "kernel-session-context",
        payload: { session_id: "s", entry_id: 1, kind: "anchor" },
      },
    });
    const live = from_start.ops.find(({ entry_id }) => entry_id === 5)!.event;
    expect(live).toMatchObject({ kind: "user.message.received", session_id: "s", payload: { text: "four" } });
    expect(Object.keys(live).sort()).toEqual(["id", "kind", "payload", "session_id", "source", "ts"]);
    const kinds = from_start.ops.map(({ event }) => event.kind);
    expect(kinds.filter((kind) => kind !== "session.context.attached")).toEqual([
      ...upTo(4).map(() => "session.replay.entry"),
      "session.replay.done",
      "user.message.received",
    ]);
  },
);

test("serializes an event once for all connections", async () => {
  const fixture = await createTestFanout();
  const frames = new Set<string>();
  const watched_events = new Set<object>();
  for (let n = 0; n < 3; n++) {
    await fixture.fanout.attach(
      caller,
      { session_id: "s" },
      {
        since_entry: null,
        adapter_id: "test",
        send(watched) {
          if (watched.entry_id !== null) {
            frames.add(watched.frame);
            watched_events.add(watched);
          }
          return 0;
        },
        ended: () => {},
      },
    );
  }
  await fixture.say("hello");
  expect([frames.size, watched_events.size]).toEqual([1, 1]);
});

test("sends entries written during a replay once and in order", async () => {
  const fixture = await createTestFanout();
  await fixture.sessions.create(makeKey());
  for (let n = 0; n < 600; n++) await fixture.say(String(n));
  let pages = 0;
  fixture.beforePage = async () => {
    if (++pages <= 5) for (let n = 0; n < 3; n++) await fixture.say(`meanwhile ${pages}`);
  };
  const watcher = await fixture.watch({ since: 0 });
  await until(() => watcher.replays().length === 1);
  await fixture.say("after");
  expect(watcher.ids()).toEqual(upTo((await fixture.sessions.get(makeKey())).last_entry_id));
});

test("keeps the order when the feed is late, repeated or out of order", async () => {
  const fixture = await createTestFanout();
  await fixture.sessions.create(makeKey());
  const watcher = await fixture.watch({ since: 0 });
  await until(() => watcher.replays().length === 1);
  fixture.delayed_deliveries = [];
  for (const text of ["a", "b", "c"]) await fixture.say(text);
  const joined = await fixture.watch({ since: 1 });
  await until(() => joined.replays().length === 1);
  const [a, b, c] = fixture.delayed_deliveries;
  fixture.delayed_deliveries = null;
  for (const deliver of [c!, a!, c!, b!]) deliver();
  await fixture.say("d");
  await until(() => watcher.ids().length === 5);
  expect([watcher.ids(), joined.ids()]).toEqual([upTo(5), upTo(5, 2)]);
});

test("misses no entry when the feed is out of order during a replay", async () => {
  const fixture = await createTestFanout();
  await fixture.sessions.create(makeKey());
  let pages = 0;
  fixture.beforePage = async () => {
    if (++pages > 1) return;
    fixture.delayed_deliveries = [];
    for (const text of ["a", "b", "c"]) await fixture.say(text);
    const [a, b, c] = fixture.delayed_deliveries;
    fixture.delayed_deliveries = null;
    for (const deliver of [a!, a!, c!, b!, b!]) deliver();
  };
  const watcher = await fixture.watch({ since: 0 });
  await until(() => watcher.replays().length === 1 && watcher.ids().length > 3);
  await fixture.say("d");
  expect([watcher.ids(), watcher.replays()]).toEqual([upTo(5), [1]]);
});

test("reads entries that exceed the buffer during a replay from the tape", async () => {
  const fixture = await createTestFanout({ buffered_bytes: 20_000 });
  await fixture.sessions.create(makeKey());
  let pages = 0;
  fixture.beforePage = async () => {
    if (++pages === 1) for (let n = 0; n < 40; n++) await fixture.say("x".repeat(500));
  };
  const watcher = await fixture.watch({ since: 0 });
  await until(() => watcher.replays().length === 1);
  expect([watcher.ids(), watcher.replays(), watcher.ended]).toEqual([upTo(41), [41], []]);
});

test("disconnects a replaying client when unpersisted events exceed the buffer", async () => {
  const fixture = await createTestFanout({ buffered_bytes: 20_000 });
  await fixture.sessions.create(makeKey());
  const approval = { id: "appr_1", tool_name: "bash", params: {}, brief: "x".repeat(500) };
  fixture.beforePage = async () => {
    for (let n = 0; n < 40; n++)
      await fixture.publish("approval.request", { ...approval, target_session_id: "s" }, "kernel");
  };
  const watcher = await fixture.watch({ since: 0 });
  await until(() => watcher.ended.length > 0);
  expect(watcher.ended).toEqual(["send_failed"]);
});

test("sends the entries of a compaction and of a reset, announced or not, and none twice after an undo", async () => {
  const fixture = await createTestFanout();
  await fixture.sessions.create(makeKey());
  const watcher = await fixture.watch({ since: 0 });
  await until(() => watcher.replays().length === 1);
  await fixture.say("one");
  const { head_chain_id: chain_id, last_entry_id } = await fixture.sessions.get(makeKey());
  const compaction = { summary: "so far", source: { chain_id, last_entry_id } };
  const { id: compacted_id } = await fixture.sessions.compact(makeKey(), compaction);
  const entries = await fixture.sessions.readEntries(scope, compacted_id, last_entry_id, 1);
  fixture.persister.announce(makeKey(), entries);
  await until(() => watcher.ids().length === 3);
  await fixture.sessions.undo(makeKey(), "admin");
  await fixture.say("two");
  await fixture.sessions.reset(makeKey());
  // The gap before this entry shows that an entry was not announced.
  await fixture.say("three");
  await until(() => watcher.ids().length === 6);
  expect(watcher.ids()).toEqual(upTo(6));
  const again = await fixture.watch({ since: 2 });
  await until(() => again.replays().length === 1);
  expect(again.ids()).toEqual(upTo(6, 3));
  expect(watcher.replays()).toEqual([1]);
});

test("replays inherited entries in a fork and then only its own", async () => {
  const fixture = await createTestFanout();
  await fixture.sessions.create(makeKey());
  await fixture.say("one");
  const { head_chain_id } = await fixture.sessions.get(makeKey());
  await fixture.sessions.fork(scope, head_chain_id, { child_id: "child" });
  const child = await fixture.watch({ session_id: "child", since: 0 });
  const parent = await fixture.watch({ since: 2 });
  await until(() => child.replays().length === 1 && parent.replays().length === 1);
  await fixture.say("of the child", "child");
  await fixture.say("of the parent");
  expect([child.ids(), parent.ids()]).toEqual([upTo(3), [3]]);
  expect(child.ops.at(-1)!.event.payload).toEqual({ text: "of the child" });
});

test("sends the next entries to a client whose cursor is beyond the end", async () => {
  const fixture = await createTestFanout();
  const watcher = await fixture.watch({ since: 500 });
  expect(watcher.last_entry_id).toBe(1);
  await until(() => watcher.replays().length === 1);
  await fixture.say("one");
  expect([watcher.ids(), watcher.replays()]).toEqual([[2], [0]]);
});

verifies("bus.scope", "sends a client only the events of its own session and project", async () => {
  const fixture = await createTestFanout();
  const watcher = await fixture.watch();
  await fixture.idle();
  watcher.ops.length = 0;
  const other_project = { ...scope, project_id: "proj_two" };
  const other_org = { ...scope, org_id: "org_other" };
  const approval = { id: "appr_1", tool_name: "bash", params: {}, brief: "run it" };
  for (const at of [scope, other_project, other_org]) {
    for (const target_session_id of ["s", "other"]) {
      await fixture.publish("approval.request", { ...approval, target_session_id }, "kernel", at);
    }
    for (const session_id of ["s", "other"]) {
      await fixture.publish("assistant.message.delta", { content: "x" }, session_id, at);
      await fixture.publish("llm.call.delta", { content: "x" }, session_id, at);
    }
    await fixture.publish("plugin.loaded", { name: "acme", version: "1", category: "tool" }, "kernel", at);
    await fixture.publish("config.updated", { key: "a.b", prefix_match_hint: "a." }, "kernel", at);
  }
  await fixture.publish("kernel.ready", { version: "1" }, "kernel", { ...scope, project_id: null as never });
  expect(watcher.kinds()).toEqual([
    "approval.request",
    "assistant.message.delta",
    "plugin.loaded",
    "kernel.ready",
  ]);
  expect(watcher.ops[0]!.event.payload.target_session_id).toBe("s");
});

test("delivers an unpersisted event that arrives during a replay", async () => {
  const fixture = await createTestFanout();
  await fixture.sessions.create(makeKey());
  let pages = 0;
  fixture.beforePage = async () => {
    if (++pages > 1) return;
    const approval = { id: "appr_1", tool_name: "bash", params: {}, brief: "run it" };
    await fixture.publish("approval.request", { ...approval, target_session_id: "s" }, "kernel");
  };
  const watcher = await fixture.watch({ since: 0 });
  await until(() => watcher.replays().length === 1);
  expect(watcher.kinds().filter((kind) => kind === "approval.request")).toHaveLength(1);
});

test("shows a model call in its tape form without the messages", async () => {
  const fixture = await createTestFanout();
  const watcher = await fixture.watch();
  const messages = [{ role: "user", content: "hello" }];
  await fixture.write("llm.call.request", { provider: "p", model: "m", messages, params: {} });
  const { payload } = watcher.ops.find(({ event }) => event.kind === "llm.call.request")!.event;
  expect(payload).toMatchObject({ provider: "p", messages_ref: { count: 1 } });
  expect(payload.messages).toBeUndefined();
});

test("rejects reserved session ids and does not create a session for a guest", async () => {
  const fixture = await createTestFanout();
  for (const session_id of ["kernel", "_bridge:web", "s::agent::1", ""]) {
    await expect(fixture.watch({ session_id })).rejects.toMatchObject({ code: "request.invalid" });
  }
  const guest = { ...caller, admin: false, scopes: ["sessions:read"] as const, role: "guest" as const };
  await expect(fixture.watch({ caller: guest })).rejects.toMatchObject({ code: "session.not_found" });
  expect(fixture.fanout.stats()).toEqual({ sessions: 0, connections: 0 });
  await fixture.watch();
  expect((await fixture.watch({ caller: guest })).last_entry_id).toBe(1);
  expect(fixture.fanout.stats()).toEqual({ sessions: 1, connections: 2 });
});

test("separates sessions with the same id in different workspaces", async () => {
  const fixture = await createTestFanout();
  const default_workspace = await fixture.watch({ since: 0 });
  const other_workspace = await fixture.watch({ since: 0, workspace: "/else" });
  await until(() => other_workspace.replays().length === 1);
  await fixture.say("hello");
  expect([default_workspace.ids(), other_workspace.ids()]).toEqual([[1, 2], [1]]);
});

verifies("fanout.attach", "sends thinking deltas to watchers, and no other delta of a provider", async () => {
  const fixture = await createTestFanout();
  await fixture.sessions.create(makeKey());
  await fixture.say("tell me");
  const watcher = await fixture.watch();
  const delta = (payload: object) =>
    fixture.publish("llm.call.delta", { request_id: "evt_1", ...payload }, "s");
  await delta({ thinking: "Let me see." });
  await delta({ thinking: "" });
  await delta({ content: "An answer" });
  await delta({ tool_call_partial: { index: 0 } });
  await fixture.publish("assistant.message.delta", { content: "An answer" }, "s");
  await until(() => watcher.kinds().includes("assistant.message.delta"));
  const thoughts = watcher.ops.filter(({ event }) => event.kind === "llm.call.delta");
  expect(thoughts.map(({ event }) => event.payload)).toEqual([
    { request_id: "evt_1", thinking: "Let me see." },
  ]);
  expect(thoughts[0]!.entry_id ?? null).toBeNull();
});
