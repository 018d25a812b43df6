/** bus.fifo: one queue per session, independent sessions, no deadlock, no memory for idle sessions. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestBus, nextTurn, scope, until } from "./test-bus.ts";

const KIND = "user.message.received";

verifies(
  "bus.fifo",
  "delivers the events of 100 sessions in order, one at a time, under any interleaving",
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(999), { minLength: 100, maxLength: 400 }),
        fc.nat(5),
        async (rolls, salt) => {
          const { bus, attachPlugin, idle } = createTestBus();
          const log = new Map<string, string[]>();
          const note = (session: string, line: string) =>
            log.set(session, [...(log.get(session) ?? []), line]);
          for (let subscriber = 0; subscriber < 3; subscriber++) {
            attachPlugin(`skill-${subscriber}`, "skill").subscribe(KIND, ({ session_id, payload }) => {
              const n = Number(payload.text);
              note(session_id, `+${n}.${subscriber}`);
              const end = () => note(session_id, `-${n}.${subscriber}`);
              // Some handlers are synchronous, some take microtasks, some take turns of the event loop, some fail.
              const variant = (n + subscriber + salt) % 4;
              if (variant === 0) return end();
              const wait = async () => {
                for (let i = 0; i < variant; i++) await (variant === 3 ? nextTurn() : Promise.resolve());
                end();
                if (variant === 2) throw new Error("failed after its work");
              };
              return wait();
            });
          }
          const web = attachPlugin("web", "adapter");
          const expected = new Map<string, number[]>();
          await Promise.all(
            rolls.map(async (roll, n) => {
              if (roll % 3 === 0) await nextTurn();
              const session_id = `s${roll % 100}`;
              expected.set(session_id, [...(expected.get(session_id) ?? []), n]);
              await web.publish(KIND, { text: String(n) }, { session_id });
            }),
          );
          await idle();
          for (const [session, order] of expected) {
            const lines = log.get(session)!;
            order.forEach((n, position) => {
              // Each event logs six lines, and the next event starts after the sixth.
              const event_lines = lines.slice(position * 6, position * 6 + 6);
              expect(event_lines.map((line) => line.slice(1)).sort()).toEqual(
                [0, 1, 2].flatMap((subscriber) => [`${n}.${subscriber}`, `${n}.${subscriber}`]).sort(),
              );
              expect(event_lines.filter((line) => line.startsWith("+"))).toEqual(
                [0, 1, 2].map((subscriber) => `+${n}.${subscriber}`),
              );
            });
          }
          expect(bus.stats()).toMatchObject({ queued: 0, running: 0 });
          bus.close();
        },
      ),
      { numRuns: 25 },
    );
  },
);

verifies("bus.fifo", "a session that waits for a handler does not delay other sessions", async () => {
  const { attachPlugin } = createTestBus();
  const done: string[] = [];
  let release = () => {};
  attachPlugin("notes", "skill").subscribe(KIND, async ({ session_id }) => {
    if (session_id === "slow") await new Promise<void>((resolve) => (release = resolve));
    done.push(session_id);
  });
  const web = attachPlugin("web", "adapter");
  for (const session_id of ["slow", "a", "b", "slow", "a"])
    web.tryPublish(KIND, { text: "x" }, { session_id });
  await nextTurn();
  expect(done).toEqual(["a", "b", "a"]);
  release();
  await until(() => done.length === 4);
  release();
  await until(() => done.length === 5);
});

verifies(
  "bus.fifo",
  "an event that a handler publishes on its own session is delivered after the current event",
  async () => {
    const { attachPlugin, events, idle } = createTestBus();
    const skill = attachPlugin("notes", "skill");
    const order: string[] = [];
    skill.subscribe(KIND, async ({ session_id }) => {
      order.push("start");
      await skill.publish("x.notes.one", {}, { session_id });
      void skill.publish("x.notes.two", {}, { session_id });
      order.push("end");
    });
    skill.subscribe("x.notes.*", ({ kind }) => void order.push(kind));
    await attachPlugin("web", "adapter").publish(KIND, { text: "go" }, { session_id: "s" });
    await idle();
    expect(order).toEqual(["start", "end", "x.notes.one", "x.notes.two"]);
    expect(events.length).toBe(3);
  },
);

verifies("bus.fifo", "rejects a handler's publish into a full session instead of deadlocking", async () => {
  const { attachPlugin, idle, events, clock } = createTestBus({ limits: { queue: 10, reserve: 10 } });
  const web = attachPlugin("web", "adapter");
  const outcomes: string[] = [];
  // The handlers of two sessions with full queues publish into their own and into each other's session.
  for (const [name, own_session, other_session] of [
    ["left", "a", "b"],
    ["right", "b", "a"],
  ] as const) {
    const port = attachPlugin(name, "skill");
    let first = true;
    port.subscribe(KIND, async ({ session_id }) => {
      if (session_id !== own_session || !first) return;
      first = false;
      for (const to of [other_session, own_session]) {
        for (let i = 0; i < 6; i++) {
          await port.publish(`x.${name}.note`, {}, { session_id: to }).then(
            () => outcomes.push("sent"),
            (error: { code: string }) => outcomes.push(error.code),
          );
        }
      }
    });
  }
  for (const session_id of ["a", "b"]) {
    while (web.tryPublish(KIND, { text: "fill" }, { session_id }) !== null);
  }
  await idle();
  // 9 events are queued and 11 more fit: one of the 12 for each session is rejected, none waits.
  expect(outcomes.length).toBe(24);
  expect(new Set(outcomes)).toEqual(new Set(["sent", "request.overloaded"]));
  expect(events.filter((event) => event.kind === KIND).length).toBe(20);
  expect(clock.timers).toBeLessThanOrEqual(1);
});

test("an endless chain of events does not starve the event loop, and ends when the bus is closed", async () => {
  const { bus, attachPlugin } = createTestBus();
  const skill = attachPlugin("notes", "skill");
  let chain = 0;
  skill.subscribe("x.notes.again", ({ session_id }) => {
    chain++;
    skill.tryPublish("x.notes.again", {}, { session_id });
  });
  skill.tryPublish("x.notes.again", {}, { session_id: "loop" });
  for (let i = 0; i < 5; i++) await nextTurn();
  expect(chain).toBeGreaterThan(1_000);
  bus.close();
  const length_at_close = chain;
  for (let i = 0; i < 5; i++) await nextTurn();
  expect(chain).toBe(length_at_close);
});

verifies("bus.fifo", "10,000 idle sessions leave no queues, timers or unused scopes", async () => {
  const { bus, attachPlugin, clock, idle } = createTestBus();
  let handled = 0;
  attachPlugin("notes", "skill").subscribe(KIND, async () => void handled++);
  const web = attachPlugin("web", "adapter");
  for (let i = 0; i < 10_000; i++) web.tryPublish(KIND, { text: "hi" }, { session_id: `s${i}` });
  expect(bus.stats()).toMatchObject({ sessions: 10_000, queued: 10_000 });
  await idle();
  await clock.advance(500);
  expect(handled).toBe(10_000);
  expect(bus.stats()).toMatchObject({
    sessions: 0,
    queued: 0,
    waiting: 0,
    running: 0,
    requests: 0,
    scopes: 1,
  });
  expect(clock.timers).toBe(0);
  // A scope without ports is removed as well.
  await bus
    .kernel()
    .publish("user.interrupt", {}, { session_id: "s", scope: { org_id: "org_far", project_id: null } });
  await idle();
  await clock.advance(500);
  expect(bus.stats().scopes).toBe(1);
  expect(clock.timers).toBe(0);
});

verifies("bus.fifo", "a long model call does not delay its deltas or an interrupt", async () => {
  const { bus, attachPlugin, idle } = createTestBus();
  const kernel = bus.kernel();
  const received: string[] = [];
  kernel.subscribe("*", ({ kind }) => void received.push(kind));
  let release = () => {};
  const model = attachPlugin("llm-echo", "llm-provider");
  model.subscribe("llm.call.request", async ({ id, session_id }) => {
    await model.publish("llm.call.delta", { content: "a" }, { session_id });
    await new Promise<void>((resolve) => (release = resolve));
    await model.publish("llm.call.response", { usage: {}, request_id: id }, { session_id });
  });
  const call = { provider: "echo", model: "m", messages: [], params: {} };
  kernel.tryPublish("llm.call.request", call, { session_id: "s", scope });
  kernel.tryPublish("user.interrupt", {}, { session_id: "s", scope });
  await nextTurn();
  expect(received).toEqual(["llm.call.request", "user.interrupt", "llm.call.delta"]);
  expect(bus.stats().sessions).toBe(0);
  release();
  await until(() => received.includes("llm.call.response"));
  await idle();
});
