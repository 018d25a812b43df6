import { BackplaneError } from "@backplane/contract";
import type { RunHold, SessionKey, TapeWrite } from "@backplane/ports";
import { TestClock } from "@backplane/test-kit/kernel/clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createPersister } from "../../src/sessions/persister.ts";
import { type TapedEvent, toTapedEntry } from "../../src/sessions/taped-entry.ts";

const key = (session_id: string): SessionKey => ({
  scope: { org_id: "org_local", project_id: "proj_default" },
  workspace: "/w",
  session_id,
});
const event = (kind: string, payload: object): TapedEvent => ({
  id: "evt_1",
  kind,
  session_id: "s",
  ts: 1,
  source: "acme",
  payload: payload as Record<string, unknown>,
});
const userMessage = (text: string) => event("user.message.received", { text });
const memoryQuery = (n: number) => event("memory.query", { query: String(n), k: 1 });

/** A persister on a store whose writes the test settles. */
function createTestPersister() {
  const writes: {
    session_id: string;
    hold: RunHold | undefined;
    entries: string[];
    end(error?: Error): void;
  }[] = [];
  const logged: string[] = [];
  const lost: object[] = [];
  const taken_over: RunHold[] = [];
  const clock = new TestClock();
  const appendTape = ({ key: at, entries, hold }: TapeWrite) =>
    new Promise<{ chain_id: string; first_id: number; last_id: number }>((resolve, reject) => {
      writes.push({
        session_id: at.session_id,
        hold,
        entries: entries.map(({ kind, payload }) =>
          kind === "message" ? (payload.content as string) : (payload.data as { query: string }).query,
        ),
        end: (error) =>
          error === undefined ? resolve({ chain_id: "ch", first_id: 1, last_id: 1 }) : reject(error),
      });
    });
  const persister = createPersister({
    store: { sessions: { appendTape } },
    clock,
    log: createTestLogger((_, message) => logged.push(message)),
    onLost: (loss) => lost.push(loss),
    onTakenOver: (hold) => taken_over.push(hold),
  });
  const flushMicrotasks = async () => {
    for (let n = 0; n < 5; n++) await Promise.resolve();
  };
  return { persister, writes, logged, lost, taken_over, clock, flushMicrotasks };
}

verifies("tape.durable", "acknowledges a message only after it is on disk", async () => {
  const { persister, writes, flushMicrotasks } = createTestPersister();
  let acknowledged = false;
  const writing = persister.write(key("s"), userMessage("a")).then(() => {
    acknowledged = true;
  });
  await flushMicrotasks();
  expect(writes.map((write) => write.entries)).toEqual([["a"]]);
  expect(acknowledged).toBe(false);
  writes[0]!.end();
  await writing;
  const refused = persister.write(key("s"), userMessage("b"));
  writes[1]!.end(new BackplaneError("store.unavailable"));
  await expect(refused).rejects.toMatchObject({ code: "store.unavailable" });
});

test("keeps entries in order and writes best-effort entries together with the next essential one", async () => {
  const { persister, writes, flushMicrotasks } = createTestPersister();
  await persister.write(key("s"), memoryQuery(1));
  const first = persister.write(key("s"), userMessage("a"));
  await persister.write(key("s"), memoryQuery(2));
  const second = persister.write(key("s"), userMessage("b"));
  await persister.write(key("s"), memoryQuery(3));
  const other = persister.write(key("t"), userMessage("c"));
  await flushMicrotasks();
  expect(writes.map((write) => [write.session_id, write.entries])).toEqual([
    ["s", ["1", "a"]],
    ["t", ["c"]],
  ]);
  writes[0]!.end();
  writes[1]!.end();
  await Promise.all([first, other]);
  await flushMicrotasks();
  expect(writes[2]?.entries).toEqual(["2", "b", "3"]);
  writes[2]!.end();
  await second;
  await persister.drain();
  expect(writes).toHaveLength(3);
});

test("writes best-effort entries after the batch delay, or immediately on drain", async () => {
  const { persister, writes, clock } = createTestPersister();
  await persister.write(key("s"), memoryQuery(1));
  await persister.write(key("s"), event("llm.call.delta", { content: "x" }));
  await expect.poll(() => writes.length).toBe(1);
  writes[0]!.end();
  await persister.drain();
  await persister.write(key("s"), memoryQuery(2));
  const drained = persister.drain();
  expect(writes[1]?.entries).toEqual(["2"]);
  writes[1]!.end();
  await drained;
  expect(clock.timers).toBe(0);
});

verifies(
  "tape.durable",
  "logs and reports lost best-effort entries without blocking their publisher",
  async () => {
    const { persister, writes, logged, lost } = createTestPersister();
    await persister.write(key("s"), memoryQuery(1));
    const message = persister.write(key("s"), userMessage("a"));
    writes[0]!.end(new BackplaneError("internal", "the schema refuses it"));
    await expect(message).rejects.toMatchObject({ code: "internal" });
    const loss = { source: "kernel-session-persister", key: key("s") };
    expect(lost).toEqual([{ ...loss, entries: 1, error: "the schema refuses it" }]);
    expect(logged).toEqual(["lost best-effort entries of a session"]);

    // While a write hangs, the number of queued best-effort entries is bounded.
    void persister.write(key("s"), userMessage("b"));
    for (let n = 0; n < 1_010; n++) await persister.write(key("s"), memoryQuery(n));
    expect(lost).toHaveLength(11);
    expect(lost.at(-1)).toMatchObject({ ...loss, entries: 1 });
    writes[1]!.end();
    await expect.poll(() => writes.length).toBe(3);
    expect(writes[2]?.entries).toHaveLength(1_000);
    writes[2]!.end();
    await persister.drain();
  },
);

test("writes the entries queued before a transaction even if the transaction is rejected", async () => {
  const { persister, writes, lost, flushMicrotasks } = createTestPersister();
  const first = persister.write(key("s"), userMessage("a"));
  await flushMicrotasks();
  const queued = persister.write(key("s"), userMessage("b"));
  await persister.write(key("s"), memoryQuery(1));
  const batch_sizes: number[] = [];
  const transaction = persister.appendInTransaction(key("s"), [], ({ entries }) => {
    batch_sizes.push(entries.length);
    return Promise.reject(new BackplaneError("idempotency.in_progress"));
  });
  writes[0]!.end();
  await first;
  await expect(transaction).rejects.toMatchObject({ code: "idempotency.in_progress" });
  await flushMicrotasks();
  expect(batch_sizes).toEqual([2]);
  expect(writes[1]?.entries).toEqual(["b", "1"]);
  writes[1]!.end();
  await queued;
  expect(lost).toEqual([]);
});

test("keeps later writes behind the entries queued before a transaction that wrote nothing", async () => {
  const { persister, writes, flushMicrotasks } = createTestPersister();
  const first = persister.write(key("s"), userMessage("a"));
  await flushMicrotasks();
  const earlier_write = persister.write(key("s"), userMessage("b"));
  const transaction = persister.appendInTransaction(key("s"), [], async () => null);
  const later_write = persister.write(key("s"), userMessage("c"));
  writes[0]!.end();
  await first;
  expect(await transaction).toBeNull();
  await flushMicrotasks();
  expect(writes[1]?.entries).toEqual(["b", "c"]);
  writes[1]!.end();
  await Promise.all([earlier_write, later_write]);
});

test("gives a transaction the ids of its own entries, and listeners the id of each entry", async () => {
  const { persister, writes, flushMicrotasks } = createTestPersister();
  const received: [number, unknown][] = [];
  persister.onWritten((_key, items) => {
    for (const { entry } of items) received.push([entry.id, entry.payload.content]);
  });
  const first = persister.write(key("s"), userMessage("a"));
  await flushMicrotasks();
  const queued = persister.write(key("s"), userMessage("b"));
  const items = ["c", "d"].map((text) => ({ entry: toTapedEntry(userMessage(text))!.entry, event: null }));
  const transaction = persister.appendInTransaction(key("s"), items, async ({ entries }) => ({
    chain_id: "ch",
    first_id: 2,
    last_id: entries.length + 1,
  }));
  writes[0]!.end();
  await Promise.all([first, queued]);
  expect(await transaction).toEqual({ chain_id: "ch", first_id: 3, last_id: 4 });
  expect(received).toEqual([
    [1, "a"],
    [2, "b"],
    [3, "c"],
    [4, "d"],
  ]);
});

test("reports no loss for events of a session that does not exist", async () => {
  const { persister, writes, lost } = createTestPersister();
  await persister.write(key("s"), memoryQuery(1));
  const drained = persister.drain();
  writes[0]!.end(new BackplaneError("session.not_found"));
  await drained;
  expect(lost).toEqual([]);
});

test("keeps best-effort entries in order during an outage and rejects essential ones immediately", async () => {
  const { persister, writes, lost } = createTestPersister();
  await persister.write(key("s"), memoryQuery(1));
  const message = persister.write(key("s"), userMessage("a"));
  writes[0]!.end(new BackplaneError("store.unavailable"));
  await expect(message).rejects.toMatchObject({ code: "store.unavailable" });
  await persister.write(key("s"), memoryQuery(2));
  await expect.poll(() => writes.length).toBe(2);
  expect(writes[1]!.entries).toEqual(["1", "2"]);
  writes[1]!.end(new BackplaneError("store.unavailable"));
  await expect.poll(() => writes.length).toBe(3);
  expect(writes[2]!.entries).toEqual(["1", "2"]);
  writes[2]!.end();
  await persister.drain();
  expect(lost).toEqual([]);
});

test("writes with the hold of the running turn, and drops its late best-effort entries after a takeover", async () => {
  const { persister, writes, lost, taken_over, flushMicrotasks } = createTestPersister();
  const hold = { run_id: "run_1", fence: 3 };
  persister.hold(key("s"), hold);
  const message = persister.write(key("s"), userMessage("a"));
  await persister.write(key("s"), memoryQuery(1));
  expect(writes[0]!.hold).toEqual(hold);
  writes[0]!.end(new BackplaneError("run.taken_over"));
  await expect(message).rejects.toMatchObject({ code: "run.taken_over" });
  expect(taken_over).toEqual([hold]);
  await flushMicrotasks();
  writes[1]!.end(new BackplaneError("run.taken_over"));
  await flushMicrotasks();
  persister.release(key("s"), hold, "lost");
  await persister.write(key("s"), memoryQuery(2));
  await persister.drain();
  expect(writes).toHaveLength(2);
  // A new message does not belong to the lost turn and is written without its late entries.
  await persister.write(key("s"), memoryQuery(3));
  const next = persister.write(key("s"), userMessage("b"));
  expect(writes[2]).toMatchObject({ entries: ["b"] });
  expect(writes[2]!.hold).toBeUndefined();
  writes[2]!.end();
  await next;
  persister.hold(key("s"), { run_id: "run_2", fence: 0 });
  await persister.write(key("s"), memoryQuery(4));
  void persister.drain();
  expect(writes[3]).toMatchObject({ entries: ["4"], hold: { run_id: "run_2", fence: 0 } });
  writes[3]!.end();
  expect(lost).toEqual([]);
});

test("repeats a write without its hold if the turn ended while the write was in progress", async () => {
  const { persister, writes, lost, taken_over, flushMicrotasks } = createTestPersister();
  const hold = { run_id: "run_1", fence: 0 };
  persister.hold(key("s"), hold);
  await persister.write(key("s"), memoryQuery(1));
  const drained = persister.drain();
  await flushMicrotasks();
  expect(writes.map((write) => write.hold)).toEqual([hold]);
  // The turn ends and its hold is released while a write with that hold is in progress; the store then rejects it.
  persister.release(key("s"), hold, "ended");
  writes[0]!.end(new BackplaneError("run.taken_over"));
  await flushMicrotasks();
  expect(writes.map((write) => [write.entries, write.hold])).toEqual([
    [["1"], hold],
    [["1"], undefined],
  ]);
  writes[1]!.end();
  await drained;
  expect([lost, taken_over]).toEqual([[], []]);
});
