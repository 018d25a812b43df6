import { createHash, randomFillSync } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { createIdSource } from "@backplane/contract";
import type { SessionKey, Store } from "@backplane/ports";
import { openSqliteStore } from "@backplane/store";
import { copyEmptyStore } from "@backplane/test-kit/empty-store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createSessions, type Sessions, tapeName } from "../../src/sessions/sessions.ts";
import { toTapedEntry } from "../../src/sessions/taped-entry.ts";

let dir: string;
let store: Store;
let sessions: Sessions;
let created = 0;

beforeAll(async () => {
  dir = createMemoryFolder("bp-sessions-");
  const file = join(dir, "store.db");
  await copyEmptyStore(file);
  store = await openSqliteStore({ file, threaded: false });
  const clock = { now: () => Date.now() };
  sessions = createSessions({
    store,
    clock,
    ids: createIdSource(clock.now, (bytes) => randomFillSync(bytes)),
  });
});
afterAll(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

const freshKey = (): SessionKey => {
  created++;
  return {
    scope: { org_id: `org_s${created}`, project_id: "proj_default" },
    workspace: "/home/acme",
    session_id: "chat",
  };
};
const makeEntry = (kind: string, payload: object) =>
  toTapedEntry({
    id: "evt_1",
    kind,
    session_id: "chat",
    ts: 1_700_000_000,
    source: "web",
    payload: payload as Record<string, unknown>,
  })!.entry;
const user = (text: string) => makeEntry("user.message.received", { text });
const assistant = (content: string) => makeEntry("assistant.message.done", { content, tool_calls: [] });
const listEvents = async ({ scope }: SessionKey) =>
  (await store.outbox.read(0, 100, scope)).map((event) => `${event.type} ${event.subject.kind}`);

test("concurrent opens create one session with a start anchor and publish its creation once", async () => {
  const key = freshKey();
  const [first, second] = await Promise.all([sessions.open(key), sessions.open(key)]);
  expect(first).toEqual(second);
  expect(first.name).toMatch(/^[0-9a-f]{16}__[0-9a-f]{16}$/);
  const [start] = await sessions.readEntries(key.scope, first.head_chain_id, 0, 10);
  expect(start).toMatchObject({ id: 1, kind: "anchor", payload: { name: "session/start" } });
  expect(await listEvents(key)).toEqual(["session.created session", "chain.created chain"]);
});

test("rejects reads of an unknown session or chain", async () => {
  const key = freshKey();
  await expect(sessions.get(key)).rejects.toMatchObject({ code: "session.not_found" });
  await expect(sessions.getChain(key.scope, "ch_none")).rejects.toMatchObject({ code: "chain.not_found" });
});

verifies(
  "tape.compaction",
  "the context starts at the last anchor, and undoing a compaction restores the previous context",
  async () => {
    const key = freshKey();
    const { head_chain_id } = await sessions.create(key);
    await sessions.append(key, [
      user("one"),
      assistant("two"),
      makeEntry("memory.query", { query: "q", k: 1 }),
    ]);
    const original = await sessions.hydrate(key);
    expect(original.messages).toEqual([
      { role: "user", content: "one" },
      { role: "assistant", content: "two" },
    ]);
    const source = { chain_id: head_chain_id, last_entry_id: original.session.last_entry_id };
    const chain = await sessions.compact(key, {
      summary: "They counted.",
      source,
      tokens_before: 900,
      tokens_after: 90,
      seed: [assistant("two")],
    });
    expect(chain).toMatchObject({ parent_chain_id: head_chain_id, origin: "compaction" });
    expect((await sessions.get(key)).head_chain_id).toBe(chain.id);
    // The anchor is the first entry of the new chain; everything before it belongs to the parent.
    const new_entries = await sessions.readEntries(key.scope, chain.id, source.last_entry_id, 10);
    expect(new_entries.map(({ kind }) => kind)).toEqual(["anchor", "message"]);
    await sessions.append(key, [user("three")]);
    const compacted = await sessions.hydrate(key);
    expect(compacted.messages).toEqual([
      { role: "system", content: "They counted." },
      { role: "assistant", content: "two" },
      { role: "user", content: "three" },
    ]);
    expect(compacted.entries[0]).toMatchObject({
      kind: "anchor",
      payload: { state: { kind: "compaction", source, tokens_before: 900, tokens_after: 90 } },
    });
    await expect(sessions.compact(key, { summary: "late", source })).rejects.toMatchObject({
      code: "chain.changed",
    });
    expect((await sessions.undo(key, "admin")).id).toBe(head_chain_id);
    expect((await sessions.hydrate(key)).messages).toEqual(original.messages);
    await expect(sessions.undo(key, "admin")).rejects.toMatchObject({ code: "request.invalid" });
    expect((await listEvents(key)).slice(2)).toEqual(["chain.compacted chain"]);
    const audit = await store.audit.list(key.scope, { action: "compaction.undo" }, { limit: 5 });
    expect(audit.items).toMatchObject([{ actor: "admin", subject: "chat", details: { from: chain.id } }]);
  },
);

verifies("tape.reset", "a reset empties the context and keeps the old chain", async () => {
  const key = freshKey();
  const { head_chain_id } = await sessions.create(key);
  await sessions.append(key, [user("old")]);
  const fresh = (await sessions.reset(key)).chain;
  expect((await sessions.hydrate(key)).messages).toEqual([]);
  expect((await sessions.readEntries(key.scope, fresh.id, 0, 9)).map((entry) => entry.payload.name)).toEqual([
    "session/start",
  ]);
  expect((await sessions.readEntries(key.scope, head_chain_id, 0, 9)).at(-1)?.payload.content).toBe("old");
  expect((await sessions.listChains(key, { limit: 9 })).items).toHaveLength(2);
  expect((await listEvents(key)).slice(2)).toEqual(["session.archived session", "chain.created chain"]);
  const [archived, created] = (await store.outbox.read(0, 100, key.scope)).slice(-2);
  expect([archived!.summary.chain_id, created!.subject.id]).toEqual([head_chain_id, fresh.id]);
});

verifies(
  "tape.fork",
  "a child session continues its parent's history without changing the parent",
  async () => {
    const key = freshKey();
    const { head_chain_id } = await sessions.create(key);
    await sessions.append(key, [user("one")]);
    // A caller with org scope forks a project's chain: the child stays in the project.
    const org = { ...key.scope, project_id: null };
    const chain = await sessions.fork(org, head_chain_id, { child_id: "chat::agent::1" });
    expect(chain).toMatchObject({ ...key.scope, workspace: key.workspace, session_id: "chat::agent::1" });
    const child = { ...key, session_id: "chat::agent::1" };
    await sessions.append(child, [user("two")]);
    const texts = async (session_key: SessionKey) =>
      (await sessions.hydrate(session_key)).messages.map((item) => item.content);
    expect(await texts(child)).toEqual(["one", "two"]);
    expect(await texts(key)).toEqual(["one"]);
    await expect(sessions.undo(child, "admin")).rejects.toMatchObject({ code: "request.invalid" });
    const second_chain = await sessions.fork(key.scope, head_chain_id, { at: 1 });
    expect(second_chain.session_id).toBe("chat");
    expect((await sessions.get(key)).head_chain_id).toBe(head_chain_id);
    expect(await sessions.verify(key.scope, chain.id)).toBeNull();
    expect((await listEvents(key)).slice(2)).toEqual([
      "session.created session",
      "chain.forked chain",
      "chain.forked chain",
    ]);
    expect((await sessions.list(key.scope, {}, { limit: 9 })).items.map((item) => item.id)).toEqual([
      "chat::agent::1",
      "chat",
    ]);
  },
);

verifies("tape.name", "names the tapes of sessions and forks by workspace and session id", async () => {
  const key = freshKey();
  const { name, head_chain_id } = await sessions.create(key);
  expect(name).toBe(tapeName("/home/acme", "chat"));
  await sessions.fork(key.scope, head_chain_id, { child_id: "chat::agent::1" });
  const child = await sessions.get({ ...key, session_id: "chat::agent::1" });
  expect(child.name).toBe(tapeName("/home/acme", "chat::agent::1"));
});

verifies("tape.name", "derives the name of a tape from its workspace and session id", () => {
  // As `md5sum` prints them: d41d8cd98f00b204e9800998ecf8427e, 5d41402abc4b2a76b9719d911017c592.
  expect(tapeName("", "hello")).toBe("d41d8cd98f00b204__5d41402abc4b2a76");
  const half = (text: string) => createHash("md5").update(text).digest("hex").slice(0, 16);
  expect(tapeName("/home/ä", "sess_1")).toBe(`${half("/home/ä")}__${half("sess_1")}`);
  expect(tapeName("/a", "s")).not.toBe(tapeName("/b", "s"));
});
