/** Histories of long tapes. While a tape is read in parts, the tests write entries and open other histories. */
import type { Entry } from "@backplane/contract";
import type { SessionKey } from "@backplane/ports";
import type { HydratedSession, TapeFeed } from "@backplane/session";
import { expect, test } from "vitest";
import { Histories } from "../../src/loop/history.ts";

const key: SessionKey = {
  scope: { org_id: "org_local", project_id: "proj_default" },
  workspace: "default",
  session_id: "s1",
};

function message(id: number): Entry {
  return { id, kind: "message", payload: { role: "user", content: `message ${id}` }, meta: {}, date: "" };
}

type Written = Parameters<Parameters<TapeFeed["onWritten"]>[0]>[1];

function createHistories(length: number, onYield: (count: number) => void = () => {}) {
  const tape = Array.from({ length }, (_, index) => message(index + 1));
  let reads = 0;
  let yields = 0;
  let notify = (_key: SessionKey, _items: Written): void => {};
  const feed: TapeFeed = {
    onWritten(listener) {
      notify = listener;
      return () => {};
    },
  };
  const hydrate = async ({ session_id }: SessionKey) => {
    if (session_id !== key.session_id)
      return { session: { head_chain_id: session_id }, entries: [] as Entry[] } as HydratedSession;
    reads++;
    const session = { head_chain_id: `chain_${reads}` };
    return { session, entries: [...tape] } as unknown as HydratedSession;
  };
  const histories = new Histories({ hydrate }, feed, async () => {
    onYield(++yields);
  });
  return {
    histories,
    write(): void {
      const entry = message(tape.length + 1);
      tape.push(entry);
      notify(key, [{ entry }] as unknown as Written);
    },
    counts: () => ({ reads, yields }),
  };
}

function contentsOf(messages: readonly unknown[]): unknown[] {
  return messages.map((each) => (each as { content: unknown }).content);
}

const contentsUpTo = (length: number) => Array.from({ length }, (_, index) => `message ${index + 1}`);

test("yields to other work while it reads a long tape, but not while it reads a short one", async () => {
  const long = createHistories(1_200);
  expect((await long.histories.open(key)).size).toBe(1_200);
  expect(long.counts()).toEqual({ reads: 1, yields: 3 });
  const short = createHistories(500);
  expect((await short.histories.open(key)).size).toBe(500);
  expect(short.counts()).toEqual({ reads: 1, yields: 0 });
});

test("adds entries that are written during the read once, in order", async () => {
  const fixture = createHistories(1_200, (count) => {
    if (count === 2) fixture.write();
  });
  const history = await fixture.histories.open(key);
  expect(contentsOf(history.messages())).toEqual(contentsUpTo(1_201));
  fixture.write();
  expect(contentsOf(history.messages())).toEqual(contentsUpTo(1_202));
});

test("reads the tape once for callers that open the history at the same time", async () => {
  const fixture = createHistories(1_200);
  const [first, second] = await Promise.all([fixture.histories.open(key), fixture.histories.open(key)]);
  expect(second).toBe(first);
  expect(fixture.counts().reads).toBe(1);
});

test("reads the tape again if the history was forgotten during the read", async () => {
  const fixture = createHistories(1_200, (count) => {
    if (count !== 2) return;
    fixture.histories.forget(key);
    fixture.write();
  });
  const history = await fixture.histories.open(key);
  expect(contentsOf(history.messages())).toEqual(contentsUpTo(1_201));
  expect(history.chain_id).toBe("chain_2");
});

test("keeps collecting entries for a history that is read while many others are opened", async () => {
  const opened: Promise<unknown>[] = [];
  const fixture = createHistories(1_200, (count) => {
    if (count !== 2) return;
    for (let n = 0; n < 600; n++) opened.push(fixture.histories.open({ ...key, session_id: `other-${n}` }));
    fixture.write();
  });
  const history = await fixture.histories.open(key);
  expect(contentsOf(history.messages())).toEqual(contentsUpTo(1_201));
  await Promise.all(opened);
});
