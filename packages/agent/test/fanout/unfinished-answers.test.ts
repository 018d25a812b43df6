/** Unfinished answers: the text that a client receives when it attaches, and when the text is no longer sent. */
import { toTapedEntry } from "@backplane/session";
import { expect, test } from "vitest";
import { createTestFanout, makeKey, nextTurn, scope, until, upTo } from "./test-fanout.ts";

test("shows the same final text to a client that attaches in the middle of an answer", async () => {
  const fixture = await createTestFanout();
  await fixture.sessions.create(makeKey());
  await fixture.say("tell me");
  const delta = (content: string) =>
    fixture.publish("assistant.message.delta", { content, iteration: 1 }, "s");
  await delta("Once ");
  await delta("upon ");
  const first = await fixture.watch({ since: 0 });
  await until(() => first.replays().length === 1);
  await delta("a ");
  // The client reloads, so the session has no watcher for a while.
  first.detach();
  await delta("time");
  const second = await fixture.watch({ since: 2 });
  const cold = await fixture.watch();
  await until(() => second.replays().length === 1);
  await delta(".");
  for (const watcher of [second, cold]) expect(watcher.text()).toBe("Once upon a time.");
  expect(first.text()).toBe("Once upon a ");
  const catch_up = second.ops.find(({ event }) => event.payload.catch_up === true)!;
  expect(catch_up.event.payload).toEqual({ content: "Once upon a time", catch_up: true, iteration: 1 });
  await fixture.write("assistant.message.done", { content: "Once upon a time.", tool_calls: [] });
  await fixture.idle();
  const third = await fixture.watch({ since: 2 });
  await until(() => third.replays().length === 1);
  expect(third.text()).toBe("Once upon a time.");
  expect(third.kinds()).not.toContain("assistant.message.delta");
});

test("sends the whole thinking to a client that attaches before the response, and none to a later one", async () => {
  const fixture = await createTestFanout({ partial_bytes: 30 });
  await fixture.sessions.create(makeKey());
  await fixture.say("tell me");
  const think = (request_id: string, thinking: string) =>
    fixture.publish("llm.call.delta", { request_id, thinking }, "s");
  const readCatchUp = async () => {
    const watcher = await fixture.watch({ since: 2 });
    await until(() => watcher.replays().length === 1);
    watcher.detach();
    const marked = watcher.ops.filter(({ event }) => event.payload.catch_up === true);
    return marked.map(({ event }) => event.payload);
  };
  await think("evt_0", "An earlier call");
  await think("evt_1", "Count the ");
  await think("evt_1", "words first.");
  expect(await readCatchUp()).toEqual([
    { request_id: "evt_1", thinking: "Count the words first.", catch_up: true },
  ]);
  await think("evt_1", " And then the lines.");
  await fixture.publish("assistant.message.delta", { content: "Two", iteration: 1 }, "s");
  expect(await readCatchUp()).toEqual([
    { request_id: "evt_1", thinking: "Count the words first. And the", catch_up: true, truncated: true },
    { content: "Two", iteration: 1, catch_up: true },
  ]);
  await fixture.publish("llm.call.response", { request_id: "evt_1", text: "Two", usage: {} }, "s");
  expect(await readCatchUp()).toEqual([{ content: "Two", iteration: 1, catch_up: true }]);
});

test("does not show an answer as unfinished when it is on the tape but not published yet", async () => {
  const fixture = await createTestFanout();
  await fixture.sessions.create(makeKey());
  await fixture.write("assistant.message.done", { content: "Earlier.", tool_calls: [] });
  await fixture.publish("assistant.message.delta", { content: "Hel" }, "s");
  const early = await fixture.watch({ since: 0 });
  await until(() => early.replays().length === 1);
  expect(early.text()).toBe("Hel");
  fixture.delayed_deliveries = [];
  const prepared = fixture.bus
    .kernel("loop")
    .prepare("assistant.message.done", { content: "Hello", tool_calls: [] }, { session_id: "s", scope });
  const { entry } = toTapedEntry(prepared.event)!;
  await fixture.persister.append(makeKey(), [{ entry, event: prepared.event }]);
  const late = await fixture.watch({ since: 0 });
  await until(() => late.replays().length === 1);
  expect(late.text()).toBe("Hello");
  for (const deliver of fixture.delayed_deliveries) deliver();
  prepared.publish();
  await fixture.idle();
  expect([early.text(), early.ids(), late.ids()]).toEqual(["Hello", upTo(3), upTo(3)]);
});

test("ignores deltas that arrive after the answer is on the tape", async () => {
  const fixture = await createTestFanout();
  await fixture.sessions.create(makeKey());
  const watcher = await fixture.watch({ since: 0 });
  await until(() => watcher.replays().length === 1);
  const hold = Promise.withResolvers<void>();
  const slow = fixture.attachPlugin("slow", "skill");
  slow.subscribe("assistant.message.delta", () => hold.promise);
  const port = fixture.bus.kernel("loop");
  for (const content of ["Hel", "lo"]) {
    await port.publish("assistant.message.delta", { content }, { session_id: "s", scope });
  }
  await nextTurn();
  await fixture.write("assistant.message.done", { content: "Hello", tool_calls: [] });
  hold.resolve();
  await fixture.idle();
  expect(watcher.text()).toBe("Hello");
  const joined = await fixture.watch({ since: 0 });
  await until(() => joined.replays().length === 1);
  expect(joined.text()).toBe("Hello");
});

test("limits the kept text of an unfinished answer and marks it as truncated", async () => {
  const fixture = await createTestFanout({ partial_bytes: 10 });
  for (let n = 0; n < 5; n++) await fixture.publish("assistant.message.delta", { content: "four" }, "s");
  const watcher = await fixture.watch();
  const catch_up = watcher.ops.find(({ event }) => event.payload.catch_up === true)!;
  expect(catch_up.event.payload).toEqual({ content: "fourfourfo", catch_up: true, truncated: true });
});
