/**
 * Reading tapes: a whole tape compared with bare node:sqlite, and the context of a long session compared with that of a
 * short one.
 */

import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createIdSource } from "@backplane/contract";
import type { SessionKey } from "@backplane/ports";
import { createSessions, type Sessions, toTapedEntry } from "@backplane/session";
import { openSqliteStore } from "@backplane/store";
import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";

const LONG_ENTRIES = 100_000;
const SHORT_ENTRIES = 1_000;
/** The entries of a session after its compaction. */
const ENTRIES_AFTER_COMPACTION = 50;
const PAGE_SIZE = 1_000;
const HYDRATIONS = 100;
const HYDRATION_ROUNDS = 41;
const REPETITIONS = 7;

export async function measureTape(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-bench-tape-"));
  const file = join(folder, "store.db");
  const store = await openSqliteStore({ file });
  const sessions = createSessions({
    store,
    clock: { now: () => Date.now() },
    ids: createIdSource(Date.now, (bytes) => randomFillSync(bytes)),
  });
  const bare = new DatabaseSync(file, { readOnly: true });
  try {
    const long = await createFilledSession(sessions, "long", LONG_ENTRIES);
    const short = await createFilledSession(sessions, "short", SHORT_ENTRIES);
    const replay = { ours: [] as number[], bare: [] as number[] };
    const hydrate = { long: [] as number[], short: [] as number[] };
    // The first round of each warms up. Hydrations have their own loop, because the garbage of a replay would slow
    // down the measurement after it.
    for (let round = 0; round <= REPETITIONS; round++) {
      const ours = await measureReplayRate(sessions, long);
      const limit = measureBareRate(bare, long.chain_id);
      if (round === 0) continue;
      replay.ours.push(ours);
      replay.bare.push(limit);
    }
    for (let round = 0; round <= HYDRATION_ROUNDS; round++) {
      const long_ms = await measureHydration(sessions, long.key);
      const short_ms = await measureHydration(sessions, short.key);
      if (round === 0) continue;
      hydrate.long.push(long_ms);
      hydrate.short.push(short_ms);
    }
    return [
      createRow(
        "tape.replay",
        "entries/s, 100,000 entries",
        "higher",
        median(replay.ours),
        median(replay.bare),
      ),
      createRow(
        "tape.hydrate",
        "ms, 100,000 entries before the anchor; limit: 1,000 entries",
        "lower",
        median(hydrate.long),
        median(hydrate.short),
      ),
    ];
  } finally {
    bare.close();
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface TestSession {
  key: SessionKey;
  chain_id: string;
}

async function createFilledSession(
  sessions: Sessions,
  session_id: string,
  entries: number,
): Promise<TestSession> {
  const scope = { org_id: "org_local", project_id: "proj_default" };
  const key = { scope, workspace: "/bench", session_id };
  const { head_chain_id: chain_id } = await sessions.create(key);
  for (let n = 0; n < entries; n += PAGE_SIZE) {
    await sessions.append(
      key,
      Array.from({ length: PAGE_SIZE }, (_, i) => createEntry(n + i)),
    );
  }
  const { last_entry_id } = await sessions.get(key);
  await sessions.compact(key, { summary: "so far", source: { chain_id, last_entry_id } });
  await sessions.append(
    key,
    Array.from({ length: ENTRIES_AFTER_COMPACTION }, (_, n) => createEntry(n)),
  );
  return { key, chain_id };
}

function createEntry(n: number) {
  const text = `message ${n}: ${"some words that a person or a model would say. ".repeat(4)}`;
  return toTapedEntry({
    id: `evt_${n}`,
    kind: n % 2 === 0 ? "user.message.received" : "assistant.message.done",
    session_id: "s",
    ts: 1_790_000_000,
    source: "bench",
    payload: n % 2 === 0 ? { text } : { content: text, tool_calls: [] },
  })!.entry;
}

async function measureReplayRate(sessions: Sessions, { key, chain_id }: TestSession): Promise<number> {
  const from = performance.now();
  let after = 0;
  let count = 0;
  for (;;) {
    const page = await sessions.readEntries(key.scope, chain_id, after, PAGE_SIZE);
    count += page.length;
    if (page.length < PAGE_SIZE) break;
    after = page.at(-1)!.id;
  }
  if (count < LONG_ENTRIES) throw new Error(`only ${count} entries were read`);
  return (count / (performance.now() - from)) * 1000;
}

/** The same rows, pages and JSON without any other work. */
function measureBareRate(database: DatabaseSync, chain_id: string): number {
  const select = database.prepare(
    "select first_id, body from spans where chain_id = ? and last_id > ? and first_id <= ? order by last_id",
  );
  const from = performance.now();
  let after = 0;
  let count = 0;
  for (;;) {
    const page: unknown[] = [];
    for (const { first_id, body } of select.all(chain_id, after, after + PAGE_SIZE)) {
      let id = first_id as number;
      for (const [kind, date, payload, meta] of JSON.parse(body as string) as unknown[][]) {
        if (id > after && id <= after + PAGE_SIZE) page.push({ id, kind, date, payload, meta });
        id++;
      }
    }
    count += page.length;
    if (page.length < PAGE_SIZE) break;
    after += PAGE_SIZE;
  }
  return (count / (performance.now() - from)) * 1000;
}

async function measureHydration(sessions: Sessions, key: SessionKey): Promise<number> {
  const from = performance.now();
  for (let n = 0; n < HYDRATIONS; n++) {
    const { messages } = await sessions.hydrate(key);
    if (messages.length !== ENTRIES_AFTER_COMPACTION + 1)
      throw new Error(`the context has ${messages.length} messages`);
  }
  return (performance.now() - from) / HYDRATIONS;
}
