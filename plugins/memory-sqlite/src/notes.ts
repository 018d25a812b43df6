/**
 * Storage and search of notes. Every search is limited to one scope, so a query never finds another tenant's notes. An
 * index that is missing, or outdated because a SQLite without FTS5 wrote entries, is rebuilt at the next use.
 */
import { createHash, randomUUID } from "node:crypto";
import type { JsonObject, MemoryEntry } from "@backplane/sdk/kernel";
import type { Database, NoteRow } from "./database.ts";
import { buildMatchExpression, parseSearchTerms, toLikePattern } from "./search-terms.ts";
import { packVector, rankBySimilarity } from "./vectors.ts";
import { createWordCounts } from "./word-counts.ts";

export interface NoteScope {
  org_id: string;
  project_id: string | null;
}

export interface Note {
  id?: string;
  text: string;
  meta?: JsonObject;
  /** Milliseconds since the epoch. */
  at: number;
}

export interface Write {
  scope: NoteScope;
  note: Note;
  max_entries: number;
}

export interface Query {
  scope: NoteScope;
  query: string;
  k: number;
  now: number;
  half_life_days?: number;
  /** The query in the space of an embedding model. Notes of other spaces are found by their words. */
  embedded?: { space: string; vector: readonly number[]; min_similarity: number };
}

/** A note without a vector of the requested space. */
export interface UnembeddedNote {
  n: number;
  text: string;
}

export interface EmbeddedNotes {
  space: string;
  vectors: { n: number; vector: readonly number[] }[];
}

export interface Notes {
  /** All notes are on disk when this returns, or none. */
  write(writes: readonly Write[]): void;
  /** Sorted by score, best first. */
  query(query: Query): MemoryEntry[];
  count(): number;
  /** The most recently added notes without a vector of `space`, or without any vector if `space` is null. */
  listUnembedded(scope: NoteScope, space: string | null, limit: number): UnembeddedNote[];
  /** Replaces vectors of other spaces. Notes that were deleted meanwhile are skipped. */
  embed(notes: EmbeddedNotes): void;
}

interface Candidate {
  n: number;
  at: number;
  score: number;
}

interface ScopeNotes {
  id: number;
  entries: number;
  indexed: number;
}

/** The maximum number of matches of a search by words or by meaning; only these are weighted by age. */
const CANDIDATES = 200;
/** One search compares only the vectors of this many most recently added notes, which bounds its time. */
const MAX_COMPARED = 10_000;
/** Reduces the weight of the top ranks when two rankings are combined. */
const RANK_OFFSET = 60;
/** The maximum size of one answer; the first hit is always part of it. */
const ANSWER_BYTES = 1024 * 1024;
const DAY_MS = 86_400_000;

export function createNotes(database: Database): Notes {
  const { execute, transaction } = database;
  const counts = createWordCounts(database);

  const findScope = ({ org_id, project_id }: NoteScope): ScopeNotes | undefined =>
    execute(
      "select id, entries, indexed from scope where org_id = ? and project_id = ?",
      org_id,
      project_id ?? "",
    )[0] as unknown as ScopeNotes | undefined;

  function writeOne({ scope, note, max_entries }: Write): void {
    execute(
      "insert into scope (org_id, project_id) values (?, ?) on conflict do nothing",
      scope.org_id,
      scope.project_id ?? "",
    );
    const scope_notes = findScope(scope)!;
    ensureIndex(scope_notes);
    const digest = createHash("sha256").update(note.text).digest();
    const same = execute(
      "select n, id from entry where scope_id = ? and digest = ?",
      scope_notes.id,
      digest,
    )[0];
    const meta = note.meta === undefined ? null : JSON.stringify(note.meta);
    if (same !== undefined && (note.id === undefined || note.id === same.id)) {
      execute(
        "update entry set at = max(at, ?), meta = coalesce(?, meta) where n = ?",
        note.at,
        meta,
        Number(same.n),
      );
      return;
    }
    const id = note.id ?? `mem_${randomUUID().replaceAll("-", "")}`;
    const replaced = unindex(
      scope_notes,
      execute(
        "delete from entry where scope_id = ? and (id = ? or digest = ?) returning n",
        scope_notes.id,
        id,
        digest,
      ),
    );
    const [added] = execute(
      "insert into entry (scope_id, at, id, digest, meta, text) values (?, ?, ?, ?, ?, ?) returning n",
      scope_notes.id,
      note.at,
      id,
      digest,
      meta,
      note.text,
    );
    if (database.full_text) {
      execute(`insert into words_${scope_notes.id} (rowid, text) values (?, ?)`, Number(added!.n), note.text);
    }
    const entries = scope_notes.entries + 1 - replaced;
    const dropped = entries > max_entries ? dropOldest(scope_notes, entries - max_entries) : 0;
    execute("update scope set entries = ? where id = ?", entries - dropped, scope_notes.id);
  }

  function dropOldest(scope_notes: ScopeNotes, count: number): number {
    const oldest = `select n from entry where scope_id = ? order by at, n limit ?`;
    return unindex(
      scope_notes,
      execute(`delete from entry where n in (${oldest}) returning n`, scope_notes.id, count),
    );
  }

  function unindex(scope_notes: ScopeNotes, deleted: NoteRow[]): number {
    if (database.full_text) {
      for (const { n } of deleted) execute(`delete from words_${scope_notes.id} where rowid = ?`, Number(n));
    }
    return deleted.length;
  }

  function ensureIndex(scope_notes: ScopeNotes): void {
    if (!database.full_text) {
      if (scope_notes.indexed === 1) execute("update scope set indexed = 0 where id = ?", scope_notes.id);
      return;
    }
    if (scope_notes.indexed === 1) return;
    const words = `words_${scope_notes.id}`;
    execute(`drop table if exists ${words}`);
    execute(
      `create virtual table ${words} using fts5 (text, content = '', contentless_delete = 1,
       tokenize = 'unicode61 remove_diacritics 2')`,
    );
    execute(
      `insert into ${words} (rowid, text) select n, text from entry where scope_id = ?`,
      scope_notes.id,
    );
    execute("update scope set indexed = 1 where id = ?", scope_notes.id);
  }

  function searchByWords(scope_notes: ScopeNotes, terms: readonly string[]): Candidate[] {
    if (database.full_text) {
      if (scope_notes.indexed === 0) transaction(() => ensureIndex(scope_notes));
      const chosen = counts.selectAffordable(scope_notes.id, scope_notes.entries, terms);
      // A word that is too common to search for is not treated as a partly typed word.
      const prefix = chosen.at(-1) === terms.at(-1) ? terms.at(-1) : undefined;
      const words = `words_${scope_notes.id}`;
      const best = `select rowid as n, rank from ${words} where ${words} match ? order by rank, rowid desc limit ?`;
      return execute(
        `select e.n, e.at, -b.rank as score from (${best}) b join entry e on e.n = b.n where e.scope_id = ?`,
        buildMatchExpression(chosen, prefix),
        CANDIDATES,
        scope_notes.id,
      ) as unknown as Candidate[];
    }
    const score = terms.map(() => "(text like ? escape '\\')").join(" + ");
    return execute(
      `select n, at, score from (select n, at, ${score} as score from entry where scope_id = ?)
       where score > 0 order by score desc, at desc limit ?`,
      ...terms.map(toLikePattern),
      scope_notes.id,
      CANDIDATES,
    ) as unknown as Candidate[];
  }

  function searchByMeaning(scope_notes: ScopeNotes, embedded: NonNullable<Query["embedded"]>): Candidate[] {
    const stored = execute(
      `select v.n, e.at, v.data from vector v join entry e on e.n = v.n
       where v.scope_id = ? and v.space = ? order by v.n desc limit ?`,
      scope_notes.id,
      embedded.space,
      MAX_COMPARED,
    ) as unknown as { n: number; at: number; data: Uint8Array }[];
    return rankBySimilarity(stored, embedded.vector, embedded.min_similarity).slice(0, CANDIDATES);
  }

  function readEntries(matches: readonly Candidate[]): MemoryEntry[] {
    const hits: MemoryEntry[] = [];
    let bytes = 0;
    for (const { n, score } of matches) {
      const row = execute("select id, at, meta, text from entry where n = ?", n)[0] as
        | { id: string; at: number; meta: string | null; text: string }
        | undefined;
      if (row === undefined) continue;
      bytes += Buffer.byteLength(row.text) + (row.meta?.length ?? 0);
      if (hits.length > 0 && bytes > ANSWER_BYTES) break;
      const hit: MemoryEntry = { id: row.id, text: row.text, score, at: new Date(row.at).toISOString() };
      if (row.meta !== null) hit.meta = JSON.parse(row.meta) as JsonObject;
      hits.push(hit);
    }
    return hits;
  }

  return {
    write(writes) {
      transaction(() => {
        for (const write of writes) writeOne(write);
      });
    },
    query({ scope, query, k, now, half_life_days, embedded }) {
      const terms = parseSearchTerms(query);
      const scope_notes = k > 0 ? findScope(scope) : undefined;
      if (scope_notes === undefined) return [];
      const by_words = terms.length > 0 ? searchByWords(scope_notes, terms) : [];
      const matches =
        embedded === undefined ? by_words : fuse(by_words, searchByMeaning(scope_notes, embedded));
      if (half_life_days !== undefined) {
        for (const note of matches)
          note.score *= 0.5 ** (Math.max(0, now - note.at) / DAY_MS / half_life_days);
      }
      matches.sort((a, b) => b.score - a.score || b.at - a.at || b.n - a.n);
      return readEntries(matches.slice(0, k));
    },
    count: () => Number(execute("select coalesce(sum(entries), 0) as total from scope")[0]!.total),
    listUnembedded(scope, space, limit) {
      const scope_notes = findScope(scope);
      if (scope_notes === undefined) return [];
      return execute(
        `select e.n, e.text from entry e left join vector v on v.n = e.n
         where e.scope_id = ? and (v.n is null or v.space <> coalesce(?, v.space)) order by e.n desc limit ?`,
        scope_notes.id,
        space,
        limit,
      ) as unknown as UnembeddedNote[];
    },
    embed({ space, vectors }) {
      transaction(() => {
        for (const { n, vector } of vectors) {
          execute(
            `insert or replace into vector (n, scope_id, space, data)
             select n, scope_id, ?, ? from entry where n = ?`,
            space,
            packVector(vector),
            n,
          );
        }
      });
    },
  };
}

/** Combines two rankings by the ranks of each note, because their scores have different scales. */
function fuse(by_words: readonly Candidate[], by_meaning: readonly Candidate[]): Candidate[] {
  const fused = new Map<number, Candidate>();
  for (const ranking of [by_words.toSorted((a, b) => b.score - a.score), by_meaning]) {
    ranking.forEach(({ n, at }, rank) => {
      const score = (fused.get(n)?.score ?? 0) + 1 / (RANK_OFFSET + rank);
      fused.set(n, { n, at, score });
    });
  }
  return [...fused.values()];
}
