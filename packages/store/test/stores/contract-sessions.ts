import type { NewEntry, Scope } from "@backplane/ports";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  brief,
  freshKey,
  message,
  newChain,
  newSession,
  start,
  summary,
} from "../support/sample-sessions.ts";
import { sampleEvent } from "../support/samples.ts";
import { freshOrg, type Subject } from "../support/subject.ts";

export function sessionCases(subject: () => Subject): void {
  const sessions = () => subject().store.sessions;
  const readBriefs = async (scope: Scope, chain_id: string, after = 0) =>
    (await sessions().listEntries(scope, chain_id, after, 1_000)).map(brief);

  test("identifies a session by scope, workspace and id, and refuses a second one", async () => {
    const key = freshKey();
    const created = await sessions().create(newSession(key), newChain(), [start], {});
    expect(created).toMatchObject({ id: "s", ...key.scope, workspace: "/w", last_entry_id: 1 });
    expect(await sessions().get(key)).toEqual(created);
    const again = () => sessions().create(newSession(key), newChain(), [start], {});
    await expect(again()).rejects.toMatchObject({ code: "session.conflict" });
    const other_keys = [
      { ...key, workspace: "/other" },
      { ...key, scope: { ...key.scope, project_id: "proj_other" } },
      { ...key, scope: { ...key.scope, project_id: null } },
      { ...key, scope: freshOrg() },
    ];
    for (const other of other_keys) {
      expect(await sessions().get(other)).toBeNull();
      await expect(sessions().append(other, [message("x")])).rejects.toMatchObject({
        code: "session.not_found",
      });
    }
    const { project_id: _, ...org } = key.scope;
    const foreign = [{ ...org, project_id: "proj_other" }, freshOrg()];
    for (const scope of foreign) {
      expect(await sessions().getChain(scope, created.head_chain_id)).toBeNull();
      const refused = { code: "chain.not_found" };
      await expect(sessions().listEntries(scope, created.head_chain_id, 0, 9)).rejects.toMatchObject(refused);
      await expect(sessions().listSinceAnchor(scope, created.head_chain_id)).rejects.toMatchObject(refused);
      await expect(sessions().verify(scope, created.head_chain_id)).rejects.toMatchObject(refused);
      await expect(
        sessions().fork({ scope, chain_id: created.head_chain_id }, newChain(), null, {}),
      ).rejects.toMatchObject(refused);
    }
    for (const other of other_keys.slice(0, 3))
      await sessions().create(newSession(other), newChain(), [], {});
    expect((await sessions().list(key.scope, {}, { limit: 9 })).items.map((item) => item.workspace)).toEqual([
      "/other",
      "/w",
    ]);
    expect((await sessions().list(key.scope, { workspace: "/w" }, { limit: 9 })).items).toEqual([created]);
    const org_scope: Scope = { ...key.scope, project_id: null };
    const first = await sessions().list(org_scope, {}, { limit: 3 });
    expect(first.items).toHaveLength(3);
    const rest = await sessions().list(org_scope, {}, { limit: 3, after: first.next! });
    expect(rest).toEqual({ items: [created], next: null });
  });

  test("merges changes to the metadata of a session and removes fields that are null", async () => {
    const key = freshKey();
    await sessions().create({ ...newSession(key), metadata: { a: 1, b: 2 } }, newChain(), [start], {});
    const patched = await sessions().patch(key, { b: null, c: 3 });
    expect(patched.metadata).toEqual({ a: 1, c: 3 });
    expect((await sessions().get(key))?.metadata).toEqual({ a: 1, c: 3 });
  });

  verifies("tape.name", "separates sessions whose tapes have the same name", async () => {
    const key = freshKey();
    const name = "0123456789abcdef__0123456789abcdef";
    const same = [
      [key, "mine"],
      [{ ...key, session_id: "t" }, "yours"],
      [{ ...key, workspace: "/elsewhere" }, "theirs"],
    ] as const;
    for (const [session] of same) {
      await sessions().create({ ...newSession(session), name }, newChain(), [start], {});
    }
    for (const [session, text] of same) await sessions().append(session, [message(text)]);
    for (const [session, text] of same) {
      const { head_chain_id, name: stored_name } = (await sessions().get(session))!;
      expect(stored_name).toBe(name);
      expect(await readBriefs(session.scope, head_chain_id)).toEqual(["1 session/start", `2 ${text}`]);
    }
  });

  verifies(
    "tape.append-only",
    "keeps the order and every field of entries with several writers",
    async () => {
      const key = freshKey();
      const { head_chain_id } = await sessions().create(newSession(key), newChain(), [start], {});
      const unusual: NewEntry = {
        kind: "event",
        payload: { name: "x.a.b", data: { nul: "\u0000", half: "\ud800", deep: [{ a: null }] } },
        meta: { source: "a" },
        date: "2026-11-01T10:00:00.123Z",
      };
      expect(await sessions().append(key, [message("a"), unusual])).toEqual({
        chain_id: head_chain_id,
        first_id: 2,
        last_id: 3,
      });
      expect(await sessions().listEntries(key.scope, head_chain_id, 2, 5)).toEqual([{ id: 3, ...unusual }]);
      const batches = await Promise.all(
        Array.from({ length: 40 }, (_, n) => sessions().append(key, [message(`${n}a`), message(`${n}b`)])),
      );
      expect(batches.map((batch) => batch.first_id).sort((a, b) => a - b)).toEqual(
        Array.from({ length: 40 }, (_, n) => 4 + 2 * n),
      );
      const all = await sessions().listEntries(key.scope, head_chain_id, 3, 1_000);
      expect(all.map((entry) => entry.id)).toEqual(Array.from({ length: 80 }, (_, n) => n + 4));
      for (let n = 0; n < 80; n += 2) {
        const [first, second] = [all[n]!, all[n + 1]!].map((entry) => entry.payload.content as string);
        expect(second).toBe(`${first!.slice(0, -1)}b`);
      }
      expect(await sessions().verify(key.scope, head_chain_id)).toBeNull();
      expect((await sessions().get(key))?.last_entry_id).toBe(83);
      const page = await sessions().listEntries(key.scope, head_chain_id, 10, 3);
      expect(page.map((entry) => entry.id)).toEqual([11, 12, 13]);
    },
  );

  test("writes records in the transaction of the change", async () => {
    const key = freshKey();
    const readBack = async () =>
      (await subject().store.outbox.read(0, 100, key.scope)).map((event) => event.subject.id);
    const records = (name: string) => ({ events: [sampleEvent(name, { scope: key.scope })] });
    const chain = newChain();
    await sessions().create(newSession(key), chain, [start], records("create"));
    await expect(
      sessions().create(newSession(key), newChain(), [start], records("again")),
    ).rejects.toMatchObject({ code: "session.conflict" });
    const head = newChain();
    await sessions().compact(
      key,
      { chain_id: chain.id, last_entry_id: 1 },
      head,
      [summary],
      records("compact"),
    );
    await sessions().compact(key, { chain_id: chain.id, last_entry_id: 1 }, newChain(), [], records("stale"));
    await sessions().moveHead(key, head.id, chain.id, records("undo"));
    await sessions().moveHead(key, head.id, chain.id, records("undo twice"));
    await sessions().fork({ scope: key.scope, chain_id: chain.id }, newChain(), null, records("fork"));
    await sessions().reset(key, chain.id, newChain(), [start], records("reset"));
    await sessions().reset(key, chain.id, newChain(), [start], records("late"));
    expect(await readBack()).toEqual(["create", "compact", "undo", "fork", "reset"]);
  });
}
