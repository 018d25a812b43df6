/** Session requests with an Idempotency-Key take effect once, even if the gateway dies before or after the write. */
import type { IdempotencyClaim, Store } from "@backplane/ports";
import { until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { createTestSession, type TestSession } from "../../../agent/test/loop/test-session.ts";

const s1 = { session_id: "s1" };

interface Operation {
  name: string;
  /** The store method that performs the write. */
  write: (store: Store) => { target: Record<string, unknown>; method: string };
  begin(fixture: TestSession, once: IdempotencyClaim): Promise<unknown>;
  /** Counts the sessions, chains or messages that the operation adds to. */
  count(fixture: TestSession): Promise<number>;
}

const readHead = async (fixture: TestSession) => (await fixture.kernel.sessions.get(user, s1)).head_chain_id;
const countMessages = async (fixture: TestSession) =>
  (await fixture.tape()).filter(({ payload }) => payload.role === "user").length;
const countChains = async (fixture: TestSession) =>
  (await fixture.kernel.chains.list(user, s1, { limit: 99 })).items.length;
const storeMethod = (target: object, method: string) => ({
  target: target as Record<string, unknown>,
  method,
});
const block = { kind: "input" as const, content: [{ type: "text" as const, text: "x" }] };

const OPERATIONS: Operation[] = [
  {
    name: "a session",
    write: ({ sessions }) => storeMethod(sessions, "create"),
    begin: ({ kernel }, once) => kernel.sessions.create(user, {}, once),
    count: async ({ kernel }) => (await kernel.sessions.list(user, {}, { limit: 99 })).items.length,
  },
  {
    name: "a branch",
    write: ({ sessions }) => storeMethod(sessions, "fork"),
    begin: ({ kernel }, once) => kernel.sessions.fork(user, s1, {}, once),
    count: async ({ kernel }) => (await kernel.sessions.list(user, {}, { limit: 99 })).items.length,
  },
  {
    name: "a chain",
    write: ({ sessions }) => storeMethod(sessions, "fork"),
    begin: ({ kernel }, once) => kernel.chains.create(user, s1, once),
    count: countChains,
  },
  {
    name: "a fork",
    write: ({ sessions }) => storeMethod(sessions, "fork"),
    begin: async (fixture, once) => await fixture.kernel.chains.fork(user, await readHead(fixture), {}, once),
    count: countChains,
  },
  {
    name: "blocks",
    write: ({ sessions }) => storeMethod(sessions, "appendTape"),
    begin: async (fixture, once) =>
      await fixture.kernel.chains.addBlocks(user, await readHead(fixture), [block], once),
    count: countMessages,
  },
  {
    name: "a message",
    write: ({ runs }) => storeMethod(runs, "start"),
    begin: ({ kernel }, once) => kernel.sessions.sendMessage(user, s1, { text: "/say hi" }, once),
    count: countMessages,
  },
];

const sendOnce = (fixture: TestSession, operation: Operation, digest = "d") =>
  fixture.kernel.idempotency.open(user, "k", digest, (once) => operation.begin(fixture, once));

for (const operation of OPERATIONS) {
  test(`writes ${operation.name} once for racing requests and returns the same response after a crash`, async () => {
    const first = await createTestSession();
    await first.kernel.sessions.create(user, s1);
    const initial_count = await operation.count(first);
    const all = await Promise.all(Array.from({ length: 5 }, () => sendOnce(first, operation)));
    expect(all.filter(({ result }) => result !== null)).toHaveLength(1);
    expect(new Set(all.map((item) => item.stored)).size).toBe(2);
    expect(await operation.count(first)).toBe(initial_count + 1);
    await expect(sendOnce(first, operation, "other")).rejects.toMatchObject({ code: "idempotency.conflict" });
    await first.crash();
    const second = await createTestSession({ file: first.file });
    const repeated = await sendOnce(second, operation);
    expect(repeated).toEqual(all.find((item) => item.stored !== null));
    expect(await operation.count(second)).toBe(initial_count + 1);
  });

  test(`claims no key if the gateway dies before it writes ${operation.name} to disk`, async () => {
    const first = await createTestSession();
    await first.kernel.sessions.create(user, s1);
    const initial_count = await operation.count(first);
    const { target, method } = operation.write(first.store);
    const reached = new Promise<void>((resolve) => {
      target[method] = () => {
        resolve();
        return new Promise(() => {});
      };
    });
    void sendOnce(first, operation);
    await reached;
    await first.crash();
    const second = await createTestSession({ file: first.file });
    expect((await sendOnce(second, operation)).result).not.toBeNull();
    expect(await operation.count(second)).toBe(initial_count + 1);
  });
}

test("adds a message to a running turn once per key", async () => {
  const fixture = await createTestSession();
  const { run_id } = await fixture.kernel.sessions.sendMessage(user, s1, {
    text: "/slow 30\n/say one two three four",
  });
  await until(() => fixture.events.some(({ kind }) => kind === "assistant.message.delta"));
  const more = {
    ...OPERATIONS.at(-1)!,
    begin: ({ kernel }: TestSession, once: IdempotencyClaim) =>
      kernel.sessions.sendMessage(user, s1, { text: "/say more" }, once),
  };
  const all = await Promise.all(Array.from({ length: 5 }, () => sendOnce(fixture, more)));
  const [first_response] = all.filter(({ result }) => result !== null);
  expect(first_response?.result).toMatchObject({ run_id });
  const stored = JSON.parse(all.find((item) => item.stored !== null)!.stored!);
  expect(stored).toEqual(first_response!.result);
  await until(async () => (await fixture.kernel.runs.get(user, run_id)).status !== "running");
  const tape = (await fixture.tape()).filter(({ kind }) => kind === "message");
  expect(tape.map(({ payload }) => payload.role)).toEqual(["user", "user", "assistant", "assistant"]);
});

test("commits the other writes of a batch when one key is rejected", async () => {
  const fixture = await createTestSession();
  await fixture.kernel.sessions.create(user, s1);
  const blocks = OPERATIONS.find(({ name }) => name === "blocks")!;
  await sendOnce(fixture, blocks);
  const chain_id = await readHead(fixture);
  const used_claim: IdempotencyClaim = {
    scope: user.scope,
    key: "k",
    digest: "d",
    now: fixture.clock.now(),
    stale_ms: 1_000,
  };
  const [first, second, third] = await Promise.allSettled([
    fixture.kernel.chains.addBlocks(user, chain_id, [block]),
    fixture.kernel.chains.addBlocks(user, chain_id, [block], used_claim),
    fixture.kernel.chains.addBlocks(user, chain_id, [block]),
  ]);
  expect([first.status, second.status, third.status]).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(await countMessages(fixture)).toBe(3);
});
