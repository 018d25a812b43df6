import type { PluginCategory } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestBus, nextTurn, scope } from "./test-bus.ts";

const never = () => new Promise<void>(() => {});

verifies(
  "bus.isolation",
  "a handler that throws, rejects or hangs does not affect other handlers",
  async () => {
    const { bus, attachPlugin, events, clock, logged, idle } = createTestBus();
    const received: string[] = [];
    const failing_handlers = {
      throws: () => {
        throw new Error("sync");
      },
      rejects: async () => {
        throw new Error("async");
      },
      hangs: never,
      // The thrown value is not an Error, and its conversion to a string throws.
      odd: () =>
        Promise.reject({
          toString: () => {
            throw new Error("no");
          },
        }),
    };
    for (const [name, handler] of Object.entries(failing_handlers))
      attachPlugin(name, "skill").subscribe("user.interrupt", handler);
    attachPlugin("good", "skill").subscribe(
      "user.interrupt",
      ({ session_id }) => void received.push(session_id),
    );
    const web = attachPlugin("web", "adapter");
    const { id } = web.tryPublish("user.interrupt", {}, { session_id: "s" })!;
    web.tryPublish("user.message.received", { text: "next" }, { session_id: "s" });
    await nextTurn();
    expect(received).toEqual(["s"]);
    const errors = () =>
      events
        .filter((event) => event.kind === "plugin.error")
        .map(({ payload: { name, error } }) => ({ name, error }));
    const failedEventIds = () =>
      events.filter(({ kind }) => kind === "plugin.error").map(({ payload }) => payload.event_id);
    expect(errors()).toEqual([
      { name: "throws", error: "sync" },
      { name: "rejects", error: "async" },
      { name: "odd", error: "the handler threw a value that cannot be converted to a string" },
    ]);
    // Each plugin.error contains the id of the event that was being handled.
    expect(failedEventIds()).toEqual([id, id, id]);
    // One timer covers all handlers. The hanging handler times out after 30 s, then its session continues.
    expect(clock.timers).toBe(1);
    await clock.advance(29_900);
    expect(errors().length).toBe(3);
    expect(events.some((event) => event.kind === "user.message.received")).toBe(false);
    await clock.advance(700);
    expect(errors()[3]).toEqual({
      name: "hangs",
      error: "handling user.interrupt took longer than 30000 ms",
    });
    const published = events.find((event) => event.kind === "plugin.error")!;
    expect(published).toMatchObject({ source: "kernel", session_id: "kernel", ...scope });
    await idle();
    expect(events.some((event) => event.kind === "user.message.received")).toBe(true);

    // A failing handler of plugin.error is logged and publishes nothing.
    const error_count = errors().length;
    attachPlugin("echo", "skill").subscribe("plugin.error", async () => {
      throw new Error("and again");
    });
    attachPlugin("mute", "skill").subscribe("plugin.error", never);
    attachPlugin("late", "skill").subscribe("user.message.received", () => {
      throw new Error("once");
    });
    web.tryPublish("user.message.received", { text: "x" }, { session_id: "t" });
    await clock.advance(31_000);
    await idle();
    expect(errors().slice(error_count)).toEqual([{ name: "late", error: "once" }]);
    const lines = logged.filter(({ fields }) => (fields as { kind?: string }).kind === "plugin.error");
    expect(lines.map(({ fields }) => (fields as { plugin: string }).plugin)).toEqual(["echo", "mute"]);
    expect(bus.stats().running).toBe(0);
  },
);

verifies(
  "bus.isolation",
  "times out a hanging handler at the limit of its category, or at the deadline of the tool or model call",
  async () => {
    const { attachPlugin, bus, clock, idle } = createTestBus({
      limits: { category_ms: { skill: 1_000, tool: 2_000, strategy: 3_000 } },
    });
    const timings = new Map<string, number>();
    const attachHanging = (name: string, category: PluginCategory, kind: string) =>
      attachPlugin(name, category).subscribe(kind, never);
    attachHanging("a-skill", "skill", "tool.call.request");
    attachHanging("a-tool", "tool", "tool.call.request");
    attachHanging("a-model", "llm-provider", "llm.call.request");
    attachHanging("a-strategy", "strategy", "strategy.decide.request");
    attachHanging("a-memory", "memory", "memory.query");
    // For any other event a tool has the limit of its category.
    attachHanging("b-tool", "tool", "user.interrupt");
    const kernel = bus.kernel();
    const from = clock.monotonic();
    kernel.subscribe(
      "plugin.error",
      ({ payload }) => void timings.set(payload.name, clock.monotonic() - from),
    );
    const optionsFor = (session_id: string, call_ms?: number) => ({
      session_id,
      scope,
      ...(call_ms && { call_ms }),
    });
    kernel.tryPublish("tool.call.request", { id: "c", name: "t", args: {} }, optionsFor("1", 90_000));
    kernel.tryPublish(
      "llm.call.request",
      { provider: "p", model: "m", messages: [], params: {} },
      optionsFor("2", 5_000),
    );
    kernel.tryPublish("strategy.decide.request", { state: {} }, optionsFor("3", 90_000));
    kernel.tryPublish("memory.query", { query: "q", k: 1 }, optionsFor("4", 90_000));
    kernel.tryPublish("user.interrupt", {}, optionsFor("5", 90_000));
    await clock.advance(91_000);
    const expected = {
      "a-skill": 1_000,
      "b-tool": 2_000,
      "a-strategy": 3_000,
      "a-model": 5_000,
      "a-memory": 30_000,
      "a-tool": 90_000,
    };
    expect([...timings.keys()]).toEqual(Object.keys(expected));
    for (const [name, due] of Object.entries(expected)) {
      expect(timings.get(name)).toBeGreaterThanOrEqual(due);
      expect(timings.get(name)).toBeLessThanOrEqual(due + 600);
    }
    await idle();
    expect(bus.stats().running).toBe(0);
  },
);

test("ignores a handler that ends after its deadline and notifies its subscriber of the timeout", async () => {
  const { bus, attachPlugin, events, clock } = createTestBus();
  let finish = () => {};
  const timed_out: string[] = [];
  const outcomes: (string | null)[] = [];
  const slow = bus.attach({
    name: "slow",
    category: "skill",
    scope,
    onHandled: (failure) => outcomes.push(failure),
  });
  slow.subscribe("user.interrupt", () => new Promise<void>((resolve) => (finish = resolve)), {
    onTimeout: (event) => {
      timed_out.push(event.id);
      throw new Error("the host is gone too");
    },
  });
  const web = attachPlugin("web", "adapter");
  const event = web.tryPublish("user.interrupt", {}, { session_id: "s" })!;
  await clock.advance(31_000);
  expect(timed_out).toEqual([event.id]);
  let release = () => {};
  attachPlugin("other", "skill").subscribe(
    "user.message.received",
    () => new Promise<void>((resolve) => (release = resolve)),
  );
  web.tryPublish("user.message.received", { text: "x" }, { session_id: "s" });
  await nextTurn();
  finish();
  await nextTurn();
  expect(outcomes).toEqual(["handling user.interrupt took longer than 30000 ms"]);
  // Later handlers are awaited as usual, two for each event.
  attachPlugin("third", "skill").subscribe("user.message.received", async () => {});
  for (const text of ["again", "and again"]) {
    expect(bus.stats()).toMatchObject({ running: 1, sessions: 1 });
    web.tryPublish("user.message.received", { text }, { session_id: "s" });
    release();
    await nextTurn();
  }
  release();
  await nextTurn();
  expect(events.filter(({ kind }) => kind === "plugin.error").length).toBe(1);
  expect(bus.stats().running).toBe(0);
});

test("calls onHandled for each handled event and not for a filtered one", async () => {
  const { bus, attachPlugin } = createTestBus();
  const outcomes: (string | null)[] = [];
  const tool = bus.attach({
    name: "bash",
    category: "tool",
    scope,
    onHandled: (failure) => outcomes.push(failure),
  });
  const handle = ({ payload }: { payload: Readonly<Record<string, unknown>> }) => {
    if (payload.text === "bad") throw new Error("no");
  };
  tool.subscribe("user.message.received", handle, { filter: ({ payload }) => payload.text !== "skip" });
  const web = attachPlugin("web", "adapter");
  for (const text of ["bad", "good", "skip", "bad"])
    web.tryPublish("user.message.received", { text }, { session_id: "s" });
  await nextTurn();
  expect(outcomes).toEqual(["no", null, "no"]);
});

test("reports a throwing filter as a failure of its plugin, but not a throwing onHandled callback", async () => {
  const { bus, attachPlugin, events, logged } = createTestBus();
  const onHandled = () => {
    throw new Error("miscounted");
  };
  const port = bus.attach({ name: "odd", category: "skill", scope, onHandled });
  const filter = () => {
    throw new Error("filter");
  };
  port.subscribe("user.interrupt", () => {}, { filter });
  attachPlugin("web", "adapter").tryPublish("user.interrupt", {}, { session_id: "s" });
  await nextTurn();
  expect(events.map(({ kind, payload }) => [kind, payload.error])).toEqual([
    ["user.interrupt", undefined],
    ["plugin.error", "filter"],
  ]);
  expect(logged.some(({ level }) => level === "error")).toBe(true);
});

test("awaits thenables and counts one that calls back twice only once", async () => {
  const { bus, attachPlugin, events, idle } = createTestBus();
  const then = (ok: () => void, fail: (error: Error) => void) => {
    ok();
    ok();
    fail(new Error("late"));
  };
  const name: string = then.name;
  const twice: unknown = { [name]: then };
  attachPlugin("odd", "skill").subscribe("user.interrupt", () => twice);
  attachPlugin("web", "adapter").tryPublish("user.interrupt", {}, { session_id: "s" });
  await idle();
  expect(events.map(({ kind }) => kind)).toEqual(["user.interrupt"]);
  expect(bus.stats().running).toBe(0);
});

test("bounds the number of queued plugin.error events", async () => {
  const { bus, attachPlugin, logged, idle } = createTestBus({ limits: { queue: 5, reserve: 5 } });
  bus.kernel().subscribe("plugin.error", nextTurn);
  for (let i = 0; i < 20; i++) {
    attachPlugin(`bad-${i}`, "skill").subscribe("user.interrupt", () => {
      throw new Error("no");
    });
  }
  attachPlugin("web", "adapter").tryPublish("user.interrupt", {}, { session_id: "s" });
  await nextTurn();
  expect(bus.stats().queued).toBeLessThanOrEqual(10);
  expect(logged.some(({ message }) => message.includes("dropped"))).toBe(true);
  await idle();
});

verifies(
  "bus.isolation",
  "a handler that returns an object that only looks like a promise does not stop its session",
  async () => {
    const { bus, attachPlugin, events, idle } = createTestBus();
    const received: string[] = [];
    const throwing = () => {
      throw new Error("trap");
    };
    const constructed: Promise<void> = Promise.resolve();
    void Object.defineProperty(constructed, "constructor", { get: throwing });
    const values: Record<string, () => unknown> = {
      inherits: () => Object.create(Promise.prototype),
      constructed: () => constructed,
      proxy: () => new Proxy({}, { getPrototypeOf: throwing }),
      has: () => new Proxy({}, { has: throwing }),
    };
    for (const [name, handler] of Object.entries(values))
      attachPlugin(name, "skill").subscribe("user.interrupt", handler);
    attachPlugin("good", "skill").subscribe("user.*", ({ kind }) => void received.push(kind));
    const web = attachPlugin("web", "adapter");
    web.tryPublish("user.interrupt", {}, { session_id: "s" });
    web.tryPublish("user.message.received", { text: "next" }, { session_id: "s" });
    await idle();
    expect(received).toEqual(["user.interrupt", "user.message.received"]);
    expect(bus.stats().running).toBe(0);
    const failed = events.filter(({ kind }) => kind === "plugin.error").map(({ payload }) => payload.name);
    expect(failed).toEqual(Object.keys(values));
  },
);
