import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestBus, nextTurn, scope, until } from "./test-bus.ts";

const QUERY = { query: "q", k: 1 };
const options = { session_id: "s", scope, reply: "memory.result", timeout_ms: 5_000 };

verifies(
  "bus.correlation",
  "resolves a request with the answer that carries its id, and ignores late and foreign answers",
  async () => {
    const { bus, attachPlugin, clock, events, idle } = createTestBus();
    const kernel = bus.kernel();
    const memory = attachPlugin("memory-sqlite", "memory");
    const other_project = bus.attach({
      name: "memory-far",
      category: "memory",
      scope: { ...scope, project_id: "proj_two" },
    });
    const other_org = bus.attach({
      name: "memory-sqlite",
      category: "memory",
      scope: { ...scope, org_id: "org_b" },
    });
    const requests: string[] = [];
    memory.subscribe("memory.query", ({ id }) => void requests.push(id));

    let answered: unknown = null;
    const first = kernel.request("memory.query", QUERY, { ...options, from: "memory-sqlite" });
    const second = kernel.request("memory.query", QUERY, options);
    void first.then((event) => (answered = event));
    await until(() => requests.length === 2);
    const [first_id, second_id] = requests as [string, string];
    const publishAnswer = (request_id: string | undefined, session_id: string, port = memory) =>
      port.publish(
        "memory.result",
        { hits: [], ...(request_id !== undefined && { request_id }) },
        { session_id },
      );

    // Foreign answers: no id, an unknown id, another session, project, organization, plugin or kind.
    await publishAnswer(undefined, "s");
    await publishAnswer("evt_unknown", "s");
    await publishAnswer(first_id, "other");
    await publishAnswer(second_id, "s", other_project);
    await publishAnswer(second_id, "s", other_org);
    const skill = attachPlugin("notes", "skill");
    await skill.publish("memory.result", { hits: [], request_id: first_id }, { session_id: "s" });
    await skill.publish(
      "tool.call.result",
      { id: "c", ok: true, request_id: second_id },
      { session_id: "s" },
    );
    await idle();
    expect([answered, bus.stats().requests]).toEqual([null, 2]);

    // Each request gets its own answer, in any order.
    const to_second = await publishAnswer(second_id, "s");
    const to_first = await publishAnswer(first_id, "s");
    expect(await second).toEqual(to_second);
    expect(await first).toEqual(to_first);
    expect((await first).payload.request_id).toBe(first_id);
    expect(events.find((event) => event.id === first_id)?.kind).toBe("memory.query");

    // A late answer is delivered like any other event.
    const third = kernel.request("memory.query", QUERY, options);
    const timed_out = expect(third).rejects.toMatchObject({ code: "timeout" });
    await until(() => requests.length === 3);
    await clock.advance(5_000);
    await timed_out;
    expect(bus.stats().requests).toBe(0);
    await publishAnswer(requests[2], "s");
    await publishAnswer(first_id, "s");
    await idle();
    await clock.advance(1_000);
    expect([bus.stats().requests, clock.timers]).toEqual([0, 0]);
  },
);

test("resolves a request after all events published before its answer were handled", async () => {
  const { bus, attachPlugin } = createTestBus();
  const kernel = bus.kernel();
  const received: string[] = [];
  kernel.subscribe("llm.call.delta", async ({ payload }) => {
    await nextTurn();
    received.push(payload.content ?? "");
  });
  const model = attachPlugin("llm-echo", "llm-provider");
  model.subscribe("llm.call.request", async ({ id, session_id }) => {
    for (const content of ["a", "b"]) await model.publish("llm.call.delta", { content }, { session_id });
    await model.publish("llm.call.response", { usage: {}, request_id: id }, { session_id });
  });
  const call = { provider: "echo", model: "m", messages: [], params: {} };
  const answer = await kernel.request("llm.call.request", call, {
    ...options,
    reply: ["llm.call.response", "llm.call.error"],
  });
  expect([answer.kind, ...received]).toEqual(["llm.call.response", "a", "b"]);
});

test("10,000 timed-out requests leave no timers or table entries", async () => {
  const { bus, clock, idle } = createTestBus({ limits: { queue: 20_000, reserve: 1 } });
  const kernel = bus.kernel();
  const all = Array.from({ length: 10_000 }, () => kernel.request("memory.query", QUERY, options));
  const ended = Promise.allSettled(all);
  await idle();
  // One more timer removes the scope that is idle now.
  expect([bus.stats().requests, clock.timers]).toEqual([10_000, 10_001]);
  await clock.advance(5_000);
  expect(
    new Set(
      (await ended).map((result) =>
        result.status === "rejected" ? (result.reason as { code: string }).code : "",
      ),
    ),
  ).toEqual(new Set(["timeout"]));
  expect([bus.stats().requests, clock.timers]).toEqual([0, 0]);
});

test("answers a request that waited for a place in the queue, and drops one that timed out before that", async () => {
  const { bus, attachPlugin, clock, events, idle } = createTestBus({ limits: { queue: 1, reserve: 5 } });
  let release = () => {};
  attachPlugin("gate", "skill").subscribe(
    "user.interrupt",
    () => new Promise<void>((resolve) => (release = resolve)),
  );
  const memory = attachPlugin("memory-sqlite", "memory");
  memory.subscribe("memory.query", ({ id, session_id }) => {
    memory.tryPublish("memory.result", { hits: [], request_id: id }, { session_id });
  });
  const kernel = bus.kernel();
  kernel.tryPublish("user.interrupt", {}, { session_id: "s", scope });
  await nextTurn();
  kernel.tryPublish("session.forked", { parent_id: "s", child_id: "t" }, { session_id: "s", scope });
  const times_out = kernel.request("memory.query", QUERY, { ...options, timeout_ms: 1_000 });
  const timed_out = expect(times_out).rejects.toMatchObject({ code: "timeout" });
  const waits = kernel.request("memory.query", QUERY, options);
  await nextTurn();
  expect(bus.stats()).toMatchObject({ queued: 1, waiting: 2 });
  await clock.advance(1_000);
  await timed_out;
  expect(bus.stats()).toMatchObject({ queued: 1, waiting: 1 });
  release();
  expect((await waits).kind).toBe("memory.result");
  await idle();
  expect(events.filter((event) => event.kind === "memory.query").length).toBe(1);
});

test("an abort signal, a detached port and a full queue end a request immediately without leaks", async () => {
  const { bus, clock, idle } = createTestBus({ limits: { queue: 1, reserve: 0 } });
  const kernel = bus.kernel();
  const stop = new AbortController();
  const cancelled = kernel.request("memory.query", QUERY, { ...options, signal: stop.signal });
  await idle();
  stop.abort();
  await expect(cancelled).rejects.toMatchObject({ code: "cancelled" });
  await expect(
    kernel.request("memory.query", QUERY, { ...options, signal: stop.signal }),
  ).rejects.toMatchObject({
    code: "cancelled",
  });
  await idle();
  const open = kernel.request("memory.query", QUERY, options);
  await expect(kernel.request("memory.query", QUERY, options)).rejects.toMatchObject({
    code: "request.overloaded",
  });
  const ended = expect(open).rejects.toMatchObject({ code: "cancelled" });
  await idle();
  kernel.detach();
  await ended;
  await expect(kernel.request("memory.query", { query: 1 } as never, options)).rejects.toMatchObject({
    code: "cancelled",
  });
  await clock.advance(500);
  expect([bus.stats().requests, clock.timers]).toEqual([0, 0]);
});

test("fails a request immediately if the plugin that has to answer it throws, and no other request", async () => {
  const { bus, attachPlugin } = createTestBus();
  const kernel = bus.kernel();
  // The broken plugin throws for every query, before the other plugin receives the query.
  attachPlugin("broken", "memory").subscribe("memory.query", () => {
    throw new Error("no disk");
  });
  const works = attachPlugin("works", "memory");
  works.subscribe("memory.query", ({ id }) =>
    works.publish("memory.result", { hits: [], request_id: id }, { session_id: "s" }),
  );
  const answered = await kernel.request("memory.query", QUERY, { ...options, from: "works" });
  expect(answered.source).toBe("works");
  const failed = kernel.request("memory.query", QUERY, { ...options, from: "broken" });
  await expect(failed).rejects.toMatchObject({ code: "plugin_failed", message: "broken failed: no disk" });
});
