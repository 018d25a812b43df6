import { expect, test } from "vitest";
import { createTestBus, nextTurn, until } from "./test-bus.ts";

const KIND = "user.message.received";

/** A session whose first event is being handled until `release` is called. */
async function createBlockedSession(limits?: { queue: number; reserve: number }) {
  const test_bus = createTestBus(limits === undefined ? {} : { limits });
  let release = () => {};
  const gate = new Promise<void>((resolve) => (release = resolve));
  test_bus.attachPlugin("gate", "skill").subscribe(KIND, () => gate);
  const web = test_bus.attachPlugin("web", "adapter");
  const publish = (text: string) => web.publish(KIND, { text }, { session_id: "s" });
  const tryPublish = (text: string) => web.tryPublish(KIND, { text }, { session_id: "s" });
  await publish("first");
  await nextTurn();
  return { ...test_bus, web, publish, tryPublish, release: () => release() };
}

test("queues 1,000 events per session; then publish waits and tryPublish returns null", async () => {
  const { bus, publish, tryPublish, release, events, idle } = await createBlockedSession();
  for (let i = 0; i < 1_000; i++) expect(tryPublish(`${i}`)).not.toBeNull();
  expect(tryPublish("one more")).toBeNull();
  let entered = false;
  const waiting = publish("waits").then((event) => {
    entered = true;
    return event;
  });
  await nextTurn();
  expect([entered, bus.stats().queued, bus.stats().waiting]).toEqual([false, 1_000, 1]);
  release();
  const event = await waiting;
  await idle();
  expect(events.at(-1)).toEqual(event);
  expect(events.length).toBe(1_002);
});

test("enqueues waiting events in order of arrival, before later ones, with ascending ids", async () => {
  const { publish, tryPublish, release, events, idle, bus } = await createBlockedSession({
    queue: 2,
    reserve: 5,
  });
  const all = ["a", "b", "c", "d", "e"].map(publish);
  expect(bus.stats()).toMatchObject({ queued: 2, waiting: 3 });
  expect(tryPublish("too late")).toBeNull();
  release();
  await Promise.all(all);
  await idle();
  expect(events.map((event) => event.payload.text)).toEqual(["first", "a", "b", "c", "d", "e"]);
  const ids = events.map((event) => event.id);
  expect(ids).toEqual([...ids].sort());
});

test("enqueues one waiting event per free place", async () => {
  const { bus, attachPlugin, idle } = createTestBus({ limits: { queue: 2, reserve: 5 } });
  const gates: (() => void)[] = [];
  attachPlugin("gate", "skill").subscribe(KIND, () => new Promise<void>((resolve) => gates.push(resolve)));
  const web = attachPlugin("web", "adapter");
  const all = Array.from({ length: 6 }, () => web.publish(KIND, { text: "x" }, { session_id: "s" }));
  for (let started = 1; started <= 6; started++) {
    await until(() => gates.length === started);
    const remaining = 6 - started;
    expect(bus.stats()).toMatchObject({
      queued: Math.min(2, remaining),
      waiting: Math.max(0, remaining - 2),
    });
    gates[started - 1]!();
  }
  await Promise.all(all);
  await idle();
});

test("a handler may use the reserve of a full queue, and a publish beyond it is rejected immediately", async () => {
  const { attachPlugin, idle } = createTestBus({ limits: { queue: 10, reserve: 10 } });
  const web = attachPlugin("web", "adapter");
  const skill = attachPlugin("notes", "skill");
  const outcomes: string[] = [];
  skill.subscribe(KIND, async ({ payload, session_id }) => {
    if (payload.text !== "first") return;
    for (let i = 0; i < 13; i++) {
      const sent = skill.publish("x.notes.more", {}, { session_id });
      outcomes.push(
        await sent.then(
          () => "sent",
          (error: { code: string }) => error.code,
        ),
      );
    }
  });
  web.tryPublish(KIND, { text: "first" }, { session_id: "s" });
  while (web.tryPublish(KIND, { text: "fill" }, { session_id: "s" }) !== null);
  await idle();
  // The first event has left the queue, so 9 are queued and 11 fit.
  expect(outcomes).toEqual([...Array<string>(11).fill("sent"), "request.overloaded", "request.overloaded"]);
});

test("bounds the number of waiting publishers", async () => {
  const { publish, release, idle, bus } = await createBlockedSession({ queue: 2, reserve: 3 });
  const accepted = ["a", "b", "c", "d", "e"].map(publish);
  await expect(publish("f")).rejects.toMatchObject({ code: "request.overloaded" });
  expect(bus.stats()).toMatchObject({ queued: 2, waiting: 3 });
  release();
  await Promise.all(accepted);
  await idle();
});

test("a full session does not block publishing on other sessions", async () => {
  const { web, publish, release, idle } = await createBlockedSession({ queue: 1, reserve: 1 });
  await publish("a");
  expect(web.tryPublish("user.interrupt", {}, { session_id: "s" })).toBeNull();
  expect(web.tryPublish("user.interrupt", {}, { session_id: "other" })).not.toBeNull();
  release();
  await idle();
});

test("detaching a port rejects its waiting publishes", async () => {
  const { web, publish, release, events, idle, bus } = await createBlockedSession({ queue: 1, reserve: 5 });
  await publish("a");
  const late = publish("b");
  web.detach();
  await expect(late).rejects.toMatchObject({ code: "cancelled" });
  expect(bus.stats().waiting).toBe(0);
  release();
  await idle();
  expect(events.length).toBe(2);
});

test("a rejected publish takes no place in the queue and creates no session", async () => {
  const { bus, attachPlugin, events } = createTestBus();
  const web = attachPlugin("web", "adapter");
  await expect(web.publish(KIND, { text: 1 } as never, { session_id: "s" })).rejects.toMatchObject({
    code: "request.invalid",
    details: { issues: [{ path: "text" }] },
  });
  expect(() => web.tryPublish("kernel.ready", { version: "1" }, { session_id: "kernel" })).toThrow(
    "may not publish",
  );
  await nextTurn();
  expect([bus.stats().sessions, events.length]).toEqual([0, 0]);
});

test("closing the bus detaches every port and rejects every publisher", async () => {
  const { bus, publish, release, clock } = await createBlockedSession({ queue: 1, reserve: 5 });
  await publish("a");
  const late = publish("b");
  bus.close();
  await expect(late).rejects.toMatchObject({ code: "cancelled" });
  await expect(publish("c")).rejects.toMatchObject({ code: "cancelled" });
  release();
  await until(() => bus.stats().running === 0);
  expect(bus.stats()).toEqual({
    sessions: 0,
    queued: 0,
    waiting: 0,
    running: 0,
    requests: 0,
    scopes: 0,
    subscriptions: 0,
  });
  expect(clock.timers).toBe(0);
});
