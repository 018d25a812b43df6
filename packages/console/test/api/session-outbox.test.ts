import { BackplaneError } from "@backplane/contract";
import { expect, test, vi } from "vitest";
import { createOutbox } from "../../src/api/session-outbox.ts";

function createTestOutbox(message: (...args: unknown[]) => Promise<{ entry_id: number }>) {
  const stored = new Map<string, string>();
  let onState = () => {};
  const create = () =>
    createOutbox({
      address: { session_id: "s", workspace: "default" },
      client: { sessions: { message, create: async () => ({}) } } as never,
      live: {
        state: () => "live",
        onState(listener) {
          onState = listener;
          return () => {};
        },
      },
      storage: {
        getItem: (key) => stored.get(key) ?? null,
        setItem: (key, value) => void stored.set(key, value),
        removeItem: (key) => void stored.delete(key),
      },
      onStored: () => {},
    });
  return { create, stored, reconnect: () => onState() };
}

test("sends messages that got no response again with the same keys and in order, even after a reload", async () => {
  const sent: string[] = [];
  let reachable = false;
  const { create, stored } = createTestOutbox(async (_id, body, _where, options) => {
    sent.push(
      `${(body as { text: string }).text} ${(options as { idempotency_key: string }).idempotency_key}`,
    );
    if (!reachable) throw new BackplaneError("daemon.unreachable", "No gateway responds.");
    return { entry_id: sent.length };
  });
  const first = create();
  first.send({ text: "one", attachments: [], title: null });
  first.send({ text: "two", attachments: [], title: null });
  await vi.waitFor(() => expect(first.messages().map(({ state }) => state)).toEqual(["waiting", "sending"]));
  first.close();
  reachable = true;
  const second = create();
  await vi.waitFor(() => expect(second.messages().map(({ state }) => state)).toEqual(["stored", "stored"]));
  expect(sent.map((each) => each.split(" ")[0])).toEqual(["one", "one", "two"]);
  expect(sent[0]).toBe(sent[1]);
  expect(stored.size).toBe(0);
  second.settle(2);
  expect(second.messages().map(({ text }) => text)).toEqual(["two"]);
  second.close();
});

test("keeps a rejected message until the person sends it again", async () => {
  let allowed = false;
  const { create, reconnect } = createTestOutbox(async () => {
    if (!allowed) throw new BackplaneError("request.invalid", "No.");
    return { entry_id: 7 };
  });
  const outbox = create();
  outbox.send({ text: "one", attachments: [], title: null });
  await vi.waitFor(() => expect(outbox.messages()[0]!.state).toBe("rejected"));
  reconnect();
  expect(outbox.messages()[0]!.state).toBe("rejected");
  allowed = true;
  outbox.retry();
  await vi.waitFor(() => expect(outbox.messages()[0]).toMatchObject({ state: "stored", entry_id: 7 }));
  expect(outbox.discard(outbox.messages()[0]!.key)).toBeUndefined();
  outbox.close();
});
