import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestFanout, makeKey, type Op, until, upTo } from "./test-fanout.ts";

const contextEvents = (events: readonly { kind: string; payload: unknown }[]) =>
  events
    .filter(({ kind }) => kind.startsWith("session.context."))
    .map(({ kind, payload }) => ({ kind, payload }));

verifies(
  "fanout.heartbeat",
  "detaches silent clients at the next check and failing ones immediately, and ends all on shutdown",
  async () => {
    const fixture = await createTestFanout();
    const { clock } = fixture;
    const quiet = await fixture.watch();
    const lively = await fixture.watch();
    // The timers are the check for silent clients and the bus timer for idle scopes.
    expect(clock.timers).toBe(2);
    for (let s = 0; s < 60; s += 10) {
      await clock.advance(10_000);
      lively.heartbeat();
    }
    expect([quiet.ended, lively.ended]).toEqual([[], []]);
    await clock.advance(5_050);
    expect([quiet.ended, lively.ended]).toEqual([["timeout"], []]);

    const throwing = await fixture.watch({
      send: ({ entry_id }) => {
        if (entry_id !== undefined) throw new Error("the socket is gone");
        return 0;
      },
    });
    const slow = await fixture.watch({
      send: ({ entry_id }) => (entry_id === undefined ? 0 : 5 * 1024 * 1024),
    });
    await fixture.say("hello");
    expect([throwing.ended, slow.ended, lively.ended]).toEqual([["send_failed"], ["send_failed"], []]);
    expect([slow.ids(), lively.ids()]).toEqual([[2], [2]]);

    const departed = await fixture.watch();
    departed.detach();
    fixture.fanout.close();
    await fixture.idle();
    expect([departed.ended, lively.ended]).toEqual([[], ["shutdown"]]);
    const reasonsOf = (connection_id: string) =>
      contextEvents(fixture.events)
        .filter(({ payload }) => (payload as { connection_id: string }).connection_id === connection_id)
        .map(({ payload }) => (payload as { reason?: string }).reason ?? "attached");
    const watchers = [quiet, throwing, slow, departed, lively];
    expect(watchers.map(({ connection_id }) => reasonsOf(connection_id))).toEqual([
      ["attached", "timeout"],
      ["attached", "send_failed"],
      ["attached", "send_failed"],
      ["attached", "client_close"],
      ["attached", "shutdown"],
    ]);
    expect(fixture.fanout.stats()).toEqual({ sessions: 0, connections: 0 });
    await expect(fixture.watch()).rejects.toMatchObject({ code: "gateway_stopping" });
  },
);

test("does not wait long for a plugin that handles the end of a connection slowly", async () => {
  const fixture = await createTestFanout();
  await fixture.watch();
  await fixture.watch();
  const slow = fixture.bus.kernel("slow");
  slow.subscribe("session.context.detached", () => new Promise<void>(() => {}));
  let announced = false;
  void fixture.fanout.announceShutdown().then(() => {
    announced = true;
  });
  await fixture.clock.advance(900);
  expect(announced).toBe(false);
  await fixture.clock.advance(200);
  expect(announced).toBe(true);
});

test("publishes attach and detach events on the kernel session", async () => {
  const fixture = await createTestFanout();
  const watcher = await fixture.watch();
  const { connection_id } = watcher;
  watcher.detach();
  watcher.detach();
  await fixture.idle();
  expect(contextEvents(fixture.events)).toEqual([
    { kind: "session.context.attached", payload: { session_id: "s", connection_id, adapter_id: "test" } },
    { kind: "session.context.detached", payload: { session_id: "s", connection_id, reason: "client_close" } },
  ]);
  expect(fixture.events.every((event) => event.source === "kernel-session-context")).toBe(true);
});

test("leaves no timer and no session after the last client detaches", async () => {
  const fixture = await createTestFanout();
  const watcher = await fixture.watch({ since: 0 });
  await until(() => watcher.replays().length === 1);
  watcher.detach();
  expect(fixture.fanout.stats()).toEqual({ sessions: 0, connections: 0 });
  await fixture.clock.advance(5_050);
  expect(fixture.clock.timers).toBe(0);
});

test("drops an unfinished answer whose end is never published", async () => {
  const fixture = await createTestFanout();
  await fixture.publish("assistant.message.delta", { content: "Once" }, "s");
  await fixture.clock.advance(610_000);
  expect(fixture.clock.timers).toBe(0);
  const watcher = await fixture.watch();
  expect(watcher.text()).toBe("");
});

test("pauses a replay for a slow client instead of disconnecting it", async () => {
  const fixture = await createTestFanout({ buffered_bytes: 4_000 });
  await fixture.sessions.create(makeKey());
  for (let n = 0; n < 50; n++) await fixture.say("x".repeat(500));
  let waiting = 0;
  const watcher = await fixture.watch({
    since: 0,
    send(op: Op) {
      waiting += JSON.stringify(op).length;
      queueMicrotask(() => {
        waiting = 0;
      });
      return waiting;
    },
  });
  await until(() => watcher.replays().length === 1);
  expect([watcher.ids(), watcher.ended]).toEqual([upTo(51), []]);
});

test("replaces the lost connection of a client that reconnects, but not for another caller", async () => {
  const fixture = await createTestFanout();
  const lost = await fixture.watch();
  const other_watcher = await fixture.watch({
    replaces: lost.connection_id,
    caller: {
      actor: "key_2",
      scope: makeKey().scope,
      role: "user",
      scopes: ["sessions:write"],
      admin: false,
    },
  });
  expect([lost.ended, other_watcher.ended]).toEqual([[], []]);
  await fixture.watch({ replaces: lost.connection_id });
  expect(lost.ended).toEqual(["timeout"]);
  expect(fixture.fanout.stats().connections).toBe(2);
});

test("disconnects only the replaying client when the tape cannot be read", async () => {
  const fixture = await createTestFanout();
  const live = await fixture.watch();
  fixture.beforePage = () => {
    throw new Error("the disk is gone");
  };
  const broken = await fixture.watch({ since: 0 });
  await until(() => broken.ended.length > 0);
  await fixture.say("hello");
  expect([broken.ended, live.ids(), live.ended]).toEqual([["send_failed"], [2], []]);
});
