import type { Scope } from "@backplane/ports";
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
import type { Subject } from "../support/subject.ts";

export function chainCases(subject: () => Subject): void {
  const sessions = () => subject().store.sessions;
  const readBriefs = async (scope: Scope, chain_id: string, after = 0) =>
    (await sessions().listEntries(scope, chain_id, after, 1_000)).map(brief);

  verifies(
    "tape.fork",
    "shows a child the entries of its parent and its own, and appends only to the child",
    async () => {
      const key = freshKey();
      const { scope } = key;
      const root = (await sessions().create(newSession(key), newChain(), [start], {})).head_chain_id;
      await sessions().append(key, [message("a"), message("b")]);
      const child = { ...key, session_id: "child" };
      const forked = await sessions().fork({ scope, chain_id: root }, newChain(), newSession(child), {});
      expect(forked).toMatchObject({
        session_id: "child",
        origin: "fork",
        parent_chain_id: root,
        fork_entry_id: 3,
        last_entry_id: 3,
      });
      expect(await readBriefs(scope, forked.id)).toEqual(["1 session/start", "2 a", "3 b"]);
      await sessions().append(child, [message("c")]);
      await sessions().append(key, [message("p")]);
      expect(await readBriefs(scope, forked.id)).toEqual(["1 session/start", "2 a", "3 b", "4 c"]);
      expect(await readBriefs(scope, root)).toEqual(["1 session/start", "2 a", "3 b", "4 p"]);
      expect(await readBriefs(scope, forked.id, 3)).toEqual(["4 c"]);
      expect((await sessions().get(child))?.parent_session_id).toBe("s");

      // A fork of the fork, at an entry of the root. It is a second chain of the child session.
      const early = await sessions().fork({ scope, chain_id: forked.id, at: 2 }, newChain(), null, {});
      expect(await readBriefs(scope, early.id)).toEqual(["1 session/start", "2 a"]);
      expect(early.session_id).toBe("child");
      await sessions().append(child, [message("d")], early.id);
      expect(await readBriefs(scope, early.id)).toEqual(["1 session/start", "2 a", "5 d"]);
      expect(await readBriefs(scope, forked.id)).toEqual(["1 session/start", "2 a", "3 b", "4 c"]);
      await expect(sessions().append(key, [message("no")], early.id)).rejects.toMatchObject({
        code: "chain.not_found",
      });
      // A fork begins at the last visible entry up to `at`: 4 belongs to another chain here, 9 does not exist.
      for (const [chain_id, at, fork_entry_id] of [
        [early.id, 4, 2],
        [early.id, 9, 5],
      ] as const) {
        const created = await sessions().fork({ scope, chain_id, at }, newChain(), null, {});
        expect(created).toMatchObject({ fork_entry_id, last_entry_id: fork_entry_id });
        expect(await sessions().verify(scope, created.id)).toBeNull();
      }
      await expect(
        sessions().fork({ scope, chain_id: root, at: 0 }, newChain(), null, {}),
      ).rejects.toMatchObject({ code: "request.invalid" });
      await expect(
        sessions().fork({ scope, chain_id: root }, newChain(), newSession(key), {}),
      ).rejects.toMatchObject({ code: "session.conflict" });
      for (const id of [root, forked.id, early.id]) expect(await sessions().verify(scope, id)).toBeNull();

      // Resetting the child does not change the parent.
      await sessions().reset(child, forked.id, newChain(), [start], {});
      expect(await readBriefs(scope, root)).toEqual(["1 session/start", "2 a", "3 b", "4 p"]);
      expect((await sessions().getChain(scope, root))?.archived_at).toBeNull();
    },
  );

  verifies("tape.reset", "archives the tape on reset and starts a new chain with its anchor", async () => {
    const key = freshKey();
    const old = (await sessions().create(newSession(key), newChain(), [start], {})).head_chain_id;
    await sessions().append(key, [message("a")]);
    const chain = newChain();
    const fresh = await sessions().reset(key, old, chain, [start], {});
    expect(fresh).toMatchObject({ id: chain.id, origin: "reset", parent_chain_id: null, last_entry_id: 3 });
    expect((await sessions().get(key))?.head_chain_id).toBe(chain.id);
    expect(await readBriefs(key.scope, chain.id)).toEqual(["3 session/start"]);
    expect(await readBriefs(key.scope, old)).toEqual(["1 session/start", "2 a"]);
    expect((await sessions().getChain(key.scope, old))?.archived_at).toBe(chain.created_at);
    await expect(sessions().append(key, [message("late")], old)).rejects.toMatchObject({
      code: "chain.archived",
    });
    // The refused write used no id.
    expect(await sessions().append(key, [message("b")])).toMatchObject({ first_id: 4 });
    expect(await sessions().reset(key, old, newChain(), [start], {})).toBeNull();
    expect(await sessions().moveHead(key, chain.id, old, {})).toBe(false);
    expect((await sessions().listChains(key, { limit: 9 })).items.map((item) => item.id)).toEqual([
      chain.id,
      old,
    ]);
  });

  verifies(
    ["tape.compaction", "tape.ids"],
    "begins a chain with its anchor on compaction, moves the head back on undo, and keeps ids increasing",
    async () => {
      const key = freshKey();
      const { scope } = key;
      const old = (await sessions().create(newSession(key), newChain(), [start], {})).head_chain_id;
      await sessions().append(key, [message("a"), message("b")]);
      const chain = newChain();
      const stale = { chain_id: old, last_entry_id: 2 };
      expect(await sessions().compact(key, stale, newChain(), [summary], {})).toBeNull();
      const source = { chain_id: old, last_entry_id: 3 };
      const created = await sessions().compact(key, source, chain, [summary, message("b")], {});
      expect(created).toMatchObject({ origin: "compaction", parent_chain_id: old, fork_entry_id: 3 });
      expect((await sessions().get(key))?.head_chain_id).toBe(chain.id);
      await sessions().append(key, [message("c")]);
      const readSince = async (id: string) => (await sessions().listSinceAnchor(scope, id)).map(brief);
      expect(await readSince(chain.id)).toEqual(["4 summary", "5 b", "6 c"]);
      expect(await readBriefs(scope, chain.id)).toEqual([
        "1 session/start",
        "2 a",
        "3 b",
        "4 summary",
        "5 b",
        "6 c",
      ]);
      expect(await sessions().compact(key, source, newChain(), [summary], {})).toBeNull();

      // A fork before the anchor does not show it; a fork after it starts there.
      const fork_before_anchor = await sessions().fork(
        { scope, chain_id: chain.id, at: 3 },
        newChain(),
        null,
        {},
      );
      expect(await readSince(fork_before_anchor.id)).toEqual(["1 session/start", "2 a", "3 b"]);
      const fork_after_anchor = await sessions().fork(
        { scope, chain_id: chain.id, at: 5 },
        newChain(),
        null,
        {},
      );
      expect(await readSince(fork_after_anchor.id)).toEqual(["4 summary", "5 b"]);

      expect(await sessions().moveHead(key, old, chain.id, {})).toBe(false);
      expect(await sessions().moveHead(key, chain.id, old, {})).toBe(true);
      await sessions().append(key, [message("d")]);
      expect(await readBriefs(scope, old)).toEqual(["1 session/start", "2 a", "3 b", "7 d"]);
      // A client that has seen entry 6 of the abandoned chain misses no later entry.
      expect(await readBriefs(scope, old, 6)).toEqual(["7 d"]);
      const fresh = newChain();
      await sessions().reset(key, old, fresh, [start], {});
      await sessions().append(key, [message("e")]);
      expect(await readBriefs(scope, fresh.id, 7)).toEqual(["8 session/start", "9 e"]);
      expect((await sessions().get(key))?.last_entry_id).toBe(9);
      for (const id of [old, chain.id, fork_before_anchor.id, fork_after_anchor.id, fresh.id]) {
        expect(await sessions().verify(scope, id)).toBeNull();
      }
    },
  );

  test("detects changed and missing entries, and a moved fork point", async () => {
    const verifyAfter = async (change: (chain: string, fork: string) => string) => {
      const key = freshKey();
      const { scope } = key;
      const chain_id = (await sessions().create(newSession(key), newChain(), [start], {})).head_chain_id;
      for (const text of ["a", "b", "c"]) await sessions().append(key, [message(text)]);
      const fork = await sessions().fork({ scope, chain_id, at: 3 }, newChain(), null, {});
      await sessions().append(key, [message("d")], fork.id);
      await subject().tamper(change(chain_id, fork.id));
      const describeEntry = (at: { chain_id: string; entry_id: number } | null) =>
        at === null ? null : `${at.chain_id === chain_id ? "chain" : "fork"} ${at.entry_id}`;
      return [
        describeEntry(await sessions().verify(scope, chain_id)),
        describeEntry(await sessions().verify(scope, fork.id)),
      ];
    };
    const whereSpan = (chain: string, id: number) => `where chain_id = '${chain}' and last_id = ${id}`;
    const replaceInBody = (from: string, to: string) =>
      `update spans set body = replace(body, '${from}', '${to}')`;
    expect(await verifyAfter((chain) => `${replaceInBody('"a"', '"A"')} ${whereSpan(chain, 2)}`)).toEqual([
      "chain 2",
      "chain 2",
    ]);
    expect(await verifyAfter((chain) => `${replaceInBody("[[", "[ [")} ${whereSpan(chain, 4)}`)).toEqual([
      "chain 4",
      null,
    ]);
    expect(await verifyAfter((chain) => `${replaceInBody("[[", "{")} ${whereSpan(chain, 4)}`)).toEqual([
      "chain 4",
      null,
    ]);
    expect(await verifyAfter((chain) => `delete from spans ${whereSpan(chain, 3)}`)).toEqual([
      "chain 4",
      "fork 5",
    ]);
    expect(await verifyAfter((chain) => `delete from spans ${whereSpan(chain, 4)}`)).toEqual([
      "chain 3",
      null,
    ]);
    expect(await verifyAfter((_, fork) => `update chains set fork_entry = 2 where id = '${fork}'`)).toEqual([
      null,
      "fork 5",
    ]);
    expect(await verifyAfter((_, fork) => `delete from spans ${whereSpan(fork, 5)}`)).toEqual([
      null,
      "fork 3",
    ]);
  });

  test("reads, pages, forks and verifies the entries of one append individually", async () => {
    const key = freshKey();
    const { scope } = key;
    const chain_id = (await sessions().create(newSession(key), newChain(), [start], {})).head_chain_id;
    const texts = Array.from({ length: 150 }, (_, n) => `m${n + 2}`);
    await sessions().append(key, texts.map(message));
    await sessions().append(key, [message("m152")]);
    const ids = async (after: number, limit: number) =>
      (await sessions().listEntries(scope, chain_id, after, limit)).map(({ id }) => id);
    for (const after of [0, 1, 2, 63, 64, 65, 66, 129, 130, 150, 151, 152]) {
      for (const limit of [1, 2, 64, 65, 200]) {
        const expected = Array.from({ length: 152 }, (_, n) => n + 1).filter((id) => id > after);
        expect(await ids(after, limit), `${after} ${limit}`).toEqual(expected.slice(0, limit));
        expect((await sessions().replay(key, after, limit)).map(({ id }) => id)).toEqual(
          expected.slice(0, limit),
        );
      }
    }
    const fork = await sessions().fork({ scope, chain_id, at: 100 }, newChain(), null, {});
    expect((await sessions().listEntries(scope, fork.id, 98, 10)).map(({ id }) => id)).toEqual([99, 100]);
    await sessions().append(key, [message("own")], fork.id);
    expect((await sessions().listEntries(scope, fork.id, 98, 10)).map(({ id }) => id)).toEqual([
      99, 100, 153,
    ]);
    expect((await sessions().replay(key, 150, 10)).map(({ id }) => id)).toEqual([151, 152, 153]);
    for (const id of [chain_id, fork.id]) expect(await sessions().verify(scope, id)).toBeNull();
    await subject().tamper(
      `update spans set body = replace(body, '"m120"', '"m12O"') where chain_id = '${chain_id}'`,
    );
    expect(await sessions().verify(scope, chain_id)).toEqual({ chain_id, entry_id: 120 });
    expect(await sessions().verify(scope, fork.id)).toBeNull();
  });

  test("begins the model's context at the last of two anchors in one append", async () => {
    const key = freshKey();
    const { scope } = key;
    const chain_id = (await sessions().create(newSession(key), newChain(), [start], {})).head_chain_id;
    const anchor = { ...start, payload: { name: "again", state: {} } };
    await sessions().append(key, [message("a"), anchor, message("b"), anchor, message("c")]);
    expect((await sessions().listSinceAnchor(scope, chain_id)).map(({ id }) => id)).toEqual([5, 6]);
    const fork = await sessions().fork({ scope, chain_id, at: 4 }, newChain(), null, {});
    expect((await sessions().listSinceAnchor(scope, fork.id)).map(({ id }) => id)).toEqual([3, 4]);
  });

  test("detects a moved fork point even when the same entries are visible", async () => {
    const key = freshKey();
    const chain_id = (await sessions().create(newSession(key), newChain(), [start], {})).head_chain_id;
    const fork = await sessions().fork({ scope: key.scope, chain_id }, newChain(), null, {});
    expect(await sessions().verify(key.scope, fork.id)).toBeNull();
    await subject().tamper(`update chains set fork_entry = 2, last_entry = 2 where id = '${fork.id}'`);
    // SQLite rows have a checksum; PostgreSQL verifies its pages itself.
    const reading = readBriefs(key.scope, fork.id);
    if (subject().row_checks) await expect(reading).rejects.toMatchObject({ code: "store.damaged" });
    else expect(await reading).toEqual(["1 session/start"]);
    expect(await sessions().verify(key.scope, fork.id)).toMatchObject({ chain_id: fork.id });
  });
}
