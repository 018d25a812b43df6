/** Compares tapes with a model in memory after random appends, forks, compactions, undos and resets. */

import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Entry } from "@backplane/contract";
import type { NewEntry, SessionKey, Store } from "@backplane/ports";
import { openSqliteStore } from "@backplane/store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freshKey, message, newChain, newSession, start, summary } from "../support/sample-sessions.ts";

const RUNS = 25;
const ACTIONS = 40;

let dir: string;
let store: Store;
beforeAll(async () => {
  dir = createMemoryFolder("bp-model-");
  store = await openSqliteStore({ file: join(dir, "store.db"), threaded: false });
});
afterAll(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

interface ModelEntry {
  id: number;
  text: string;
  anchor: boolean;
}

interface ModelChain {
  id: string;
  session: ModelSession;
  visible: ModelEntry[];
  archived: boolean;
}

interface ModelSession {
  key: SessionKey;
  last: number;
  head: ModelChain;
  chains: ModelChain[];
  /** The entries of a replay. */
  all: ModelEntry[];
}

/** A seeded source of random numbers below `n`. */
function createRandom(seed: number): (n: number) => number {
  let state = seed + 1;
  return (n) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

test.each(Array.from({ length: RUNS }, (_, seed) => seed))(
  "shows the same entries as the model (seed %i)",
  async (seed) => {
    const random = createRandom(seed);
    const { sessions } = store;
    const { scope, workspace } = freshKey();
    const all: ModelSession[] = [];
    let written = 0;

    const createEntries = (count: number): NewEntry[] =>
      Array.from({ length: count }, () => {
        const name = `m${written++}`;
        // One message in forty is so long that its span ends before it has the maximum number of entries.
        return random(9) === 0
          ? { ...summary, payload: { name, state: {} } }
          : message(random(40) === 0 ? name.padEnd(300_000, "x") : name);
      });
    const write = (session: ModelSession, chain: ModelChain, entries: readonly NewEntry[]) => {
      for (const { kind, payload } of entries) {
        const expected_entry = { id: ++session.last, text: textOf(payload), anchor: kind === "anchor" };
        chain.visible.push(expected_entry);
        session.all.push(expected_entry);
      }
    };
    const addChain = (session: ModelSession, id: string, visible: readonly ModelEntry[]): ModelChain => {
      const chain = { id, session, visible: [...visible], archived: false };
      session.chains.push(chain);
      return chain;
    };
    const createSession = async (name: string) => {
      const key = { scope, workspace, session_id: name };
      const { id, created_at } = newChain();
      await sessions.create(newSession(key), { id, created_at }, [start], {});
      const session = { key, last: 0, chains: [], all: [] } as unknown as ModelSession;
      session.head = addChain(session, id, []);
      write(session, session.head, [start]);
      all.push(session);
    };

    await createSession("s0");
    for (let action = 0; action < ACTIONS; action++) {
      const session = all[random(all.length)]!;
      const chain = session.chains[random(session.chains.length)]!;
      switch (random(8)) {
        case 0:
        case 1:
        case 2: {
          const entries = createEntries(random(5) === 0 ? 60 + random(150) : random(7));
          await sessions.append(session.key, entries);
          write(session, session.head, entries);
          break;
        }
        case 3: {
          const entries = createEntries(1 + random(5));
          const result = sessions.append(session.key, entries, chain.id);
          if (chain.archived) await expect(result).rejects.toMatchObject({ code: "chain.archived" });
          else {
            await result;
            write(session, chain, entries);
          }
          break;
        }
        case 4:
        case 5: {
          if (chain.visible.length === 0) break;
          const at = chain.visible[random(chain.visible.length)]!.id + (random(4) === 0 ? 1 : 0);
          const visible = chain.visible.filter(({ id }) => id <= at);
          const forked = newChain();
          const key = random(2) === 0 ? { ...session.key, session_id: `s${all.length}` } : null;
          await sessions.fork({ scope, chain_id: chain.id, at }, forked, key && newSession(key), {});
          if (key === null) addChain(session, forked.id, visible);
          else {
            const last = visible.at(-1)!.id;
            const child = { key, last, chains: [], all: [...visible] } as unknown as ModelSession;
            child.head = addChain(child, forked.id, visible);
            all.push(child);
          }
          break;
        }
        case 6: {
          const { head } = session;
          const last_entry_id = head.visible.at(-1)?.id ?? 0;
          const new_chain = newChain();
          const first = [summary, ...createEntries(random(3))];
          const result = await sessions.compact(
            session.key,
            { chain_id: head.id, last_entry_id },
            new_chain,
            first,
            {},
          );
          expect(result?.id).toBe(new_chain.id);
          session.head = addChain(session, new_chain.id, head.visible);
          write(session, session.head, first);
          break;
        }
        case 7: {
          if (random(3) > 0) {
            const moved = await sessions.moveHead(session.key, session.head.id, chain.id, {});
            expect(moved).toBe(!chain.archived);
            if (moved) session.head = chain;
          } else {
            const new_chain = newChain();
            await sessions.reset(session.key, session.head.id, new_chain, [start], {});
            for (const chain of session.chains) chain.archived = true;
            session.head = addChain(session, new_chain.id, []);
            write(session, session.head, [start]);
          }
          break;
        }
      }
    }

    for (const session of all) {
      expect(await sessions.get(session.key)).toMatchObject({
        last_entry_id: session.last,
        head_chain_id: session.head.id,
      });
      expect(
        await readPages((after, limit) => sessions.replay(session.key, after, limit), 1 + random(90)),
      ).toEqual(briefs(session.all));
      for (const { id, visible } of session.chains) {
        expect(
          await readPages((after, limit) => sessions.listEntries(scope, id, after, limit), 1 + random(90)),
        ).toEqual(briefs(visible));
        const from = visible.findLastIndex(({ anchor }) => anchor);
        const since = await sessions.listSinceAnchor(scope, id);
        expect(since.map(brief)).toEqual(briefs(visible.slice(Math.max(0, from))));
        expect(await sessions.verify(scope, id)).toBeNull();
      }
    }
  },
);

async function readPages(
  read: (after: number, limit: number) => Promise<Entry[]>,
  limit: number,
): Promise<string[]> {
  const briefs: string[] = [];
  for (let after = 0; ; ) {
    const page = await read(after, limit);
    briefs.push(...page.map(brief));
    if (page.length < limit) return briefs;
    after = page.at(-1)!.id;
  }
}

const textOf = (payload: NewEntry["payload"]) =>
  JSON.stringify(payload.content ?? payload.name ?? null).slice(0, 9);
const brief = ({ id, payload }: Entry) => `${id} ${textOf(payload)}`;
const briefs = (shown: readonly ModelEntry[]) => shown.map(({ id, text }) => `${id} ${text}`);
