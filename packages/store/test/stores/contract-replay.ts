/** The replay of a session as one stream of entries across its chains, and changes to its metadata. */
import type { SessionKey } from "@backplane/ports";
import { expect, test } from "vitest";
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

export function replayCases(subject: () => Subject): void {
  const sessions = () => subject().store.sessions;
  const replayAll = async (key: SessionKey, after = 0, limit = 1_000) => {
    const briefs: string[] = [];
    let at = after;
    for (;;) {
      const page = await sessions().replay(key, at, limit);
      briefs.push(...page.map(brief));
      if (page.length < limit) return briefs;
      at = page.at(-1)!.id;
    }
  };

  test("replays every entry of every chain once, in order, from any id and with any page size", async () => {
    const key = freshKey();
    const { scope } = key;
    const old = (await sessions().create(newSession(key), newChain(), [start], {})).head_chain_id;
    await sessions().append(key, [message("a"), message("b")]);
    const side = await sessions().fork({ scope, chain_id: old, at: 2 }, newChain(), null, {});
    await sessions().append(key, [message("side")], side.id);
    await sessions().append(key, [message("c")]);
    const created = await sessions().compact(
      key,
      { chain_id: old, last_entry_id: 5 },
      newChain(),
      [summary, message("c")],
      {},
    );
    await sessions().append(key, [message("side too")], side.id);
    await sessions().moveHead(key, created!.id, old, {});
    await sessions().append(key, [message("d")]);
    await sessions().reset(key, old, newChain(), [start], {});
    await sessions().append(key, [message("e")]);
    const all = ["1 session/start", "2 a", "3 b", "4 side", "5 c", "6 summary", "7 c"].concat([
      "8 side too",
      "9 d",
      "10 session/start",
      "11 e",
    ]);
    for (const limit of [1, 2, 3, 11, 1_000]) {
      for (let after = 0; after <= 12; after++) {
        expect(await replayAll(key, after, limit)).toEqual(all.slice(after));
      }
    }

    // The child inherits only the entries that its chain shows: 4 and 6 to 8 are on other chains.
    const child = { ...key, session_id: "child" };
    const at = 9;
    const forked = await sessions().fork({ scope, chain_id: old, at }, newChain(), newSession(child), {});
    expect(await replayAll(child)).toEqual(["1 session/start", "2 a", "3 b", "5 c", "9 d"]);
    await sessions().append(child, [message("x"), message("y")]);
    await sessions().reset(child, forked.id, newChain(), [start], {});
    await sessions().append(child, [message("z")]);
    const inherited = ["1 session/start", "2 a", "3 b", "5 c", "9 d", "10 x", "11 y"].concat([
      "12 session/start",
      "13 z",
    ]);
    for (const limit of [1, 2, 4, 5, 6, 1_000]) expect(await replayAll(child, 0, limit)).toEqual(inherited);
    expect(await replayAll(child, 3, 2)).toEqual(inherited.slice(3));
    expect(await replayAll(child, 9, 2)).toEqual(inherited.slice(5));
    expect(await replayAll(key)).toEqual(all);

    for (const other of [{ ...key, workspace: "/other" }, freshKey()]) {
      await expect(sessions().replay(other, 0, 9)).rejects.toMatchObject({ code: "session.not_found" });
    }
  });

  test("patches metadata by key, removes a key that is set to null, and keeps concurrent patches", async () => {
    const key = freshKey();
    const created = await sessions().create(newSession(key), newChain(), [start], {});
    expect(await sessions().patch(key, { color: "red", deep: { a: null } })).toEqual({
      ...created,
      metadata: { title: "t", color: "red", deep: { a: null } },
    });
    const patch = JSON.parse('{"__proto__":{"x":1},"color":null,"gone":null}') as Record<string, never>;
    await sessions().patch(key, patch);
    const { metadata } = (await sessions().get(key))!;
    expect(JSON.stringify(metadata)).toBe('{"title":"t","deep":{"a":null},"__proto__":{"x":1}}');
    await Promise.all(Array.from({ length: 20 }, (_, n) => sessions().patch(key, { [`k${n}`]: n })));
    expect(Object.keys((await sessions().get(key))!.metadata)).toHaveLength(23);
    await expect(sessions().patch({ ...key, workspace: "/other" }, { a: 1 })).rejects.toMatchObject({
      code: "session.not_found",
    });
  });
}
