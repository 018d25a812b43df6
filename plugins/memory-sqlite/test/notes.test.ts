import { rmSync } from "node:fs";
import { join } from "node:path";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Database, openDatabase } from "../src/database.ts";
import { createNotes, type NoteScope, type Notes } from "../src/notes.ts";

const DAY = 86_400_000;
const NOW = Date.parse("2026-05-01T00:00:00Z");
const acme: NoteScope = { org_id: "org_acme", project_id: "proj_a" };

let dir: string;
let databases: Database[];

beforeEach(() => {
  dir = createMemoryFolder("memory-");
  databases = [];
});
afterEach(() => {
  for (const database of databases) database.close();
  rmSync(dir, { recursive: true });
});

function openTestNotes(full_text = true): Notes {
  const database = openDatabase({ file: join(dir, "memory.db"), full_text });
  databases.push(database);
  return createNotes(database);
}

const writeNote = (
  notes: Notes,
  text: string,
  more: { at?: number; id?: string; scope?: NoteScope; max?: number } = {},
) =>
  notes.write([
    {
      scope: more.scope ?? acme,
      note: { text, at: more.at ?? NOW, ...(more.id === undefined ? {} : { id: more.id }) },
      max_entries: more.max ?? 1_000,
    },
  ]);
const findTexts = (notes: Notes, query: string, k = 10, scope = acme, half_life_days?: number): string[] =>
  notes
    .query({ scope, query, k, now: NOW, ...(half_life_days === undefined ? {} : { half_life_days }) })
    .map(({ text }) => text);

describe.each([
  ["full text", true],
  ["LIKE", false],
])("search by %s", (_name, full_text) => {
  test("ranks the entry that shares more words first and returns at most k", () => {
    const notes = openTestNotes(full_text);
    writeNote(notes, "The red bicycle is in the cellar");
    writeNote(notes, "A red car");
    writeNote(notes, "Tomorrow it rains");
    expect(findTexts(notes, "red bicycle")).toEqual(["The red bicycle is in the cellar", "A red car"]);
    expect(findTexts(notes, "red bicycle", 1)).toHaveLength(1);
    expect(findTexts(notes, "red bicycle", 0)).toEqual([]);
    expect(findTexts(notes, "elephant")).toEqual([]);
  });

  test("stores the same text once, with the newer date", () => {
    const notes = openTestNotes(full_text);
    writeNote(notes, "The key is under the mat", { at: NOW - DAY });
    writeNote(notes, "The key is under the mat", { at: NOW });
    writeNote(notes, "The key is under the mat", { at: NOW - 2 * DAY });
    const hits = notes.query({ scope: acme, query: "key", k: 5, now: NOW });
    expect(hits).toHaveLength(1);
    expect(hits[0]!.at).toBe("2026-05-01T00:00:00.000Z");
    expect(notes.count()).toBe(1);
  });

  test("replaces the entry of a known id and no longer finds its old words", () => {
    const notes = openTestNotes(full_text);
    writeNote(notes, "lives in Rome", { id: "home" });
    writeNote(notes, "lives in Oslo", { id: "home" });
    expect(findTexts(notes, "Rome")).toEqual([]);
    expect(findTexts(notes, "Oslo")).toEqual(["lives in Oslo"]);
    writeNote(notes, "lives in Bern", { id: "other" });
    writeNote(notes, "lives in Oslo", { id: "other" });
    expect(findTexts(notes, "lives")).toEqual(["lives in Oslo"]);
    expect(notes.count()).toBe(1);
  });

  test("deletes the oldest entries beyond the limit, even when the limit shrinks", () => {
    const notes = openTestNotes(full_text);
    for (let index = 0; index < 20; index += 1) {
      writeNote(notes, `apple number${index}`, { at: NOW + index, max: 10 });
    }
    expect(notes.count()).toBe(10);
    expect(findTexts(notes, "number9")).toEqual([]);
    expect(findTexts(notes, "number10")).toEqual(["apple number10"]);
    writeNote(notes, "apple last", { at: NOW + 100, max: 3 });
    expect(findTexts(notes, "apple", 50).sort()).toEqual(["apple last", "apple number18", "apple number19"]);
  });

  test("does not find, delete or replace entries of another scope", () => {
    const notes = openTestNotes(full_text);
    const other_scopes: NoteScope[] = [
      { org_id: "org_acme", project_id: "proj_b" },
      { org_id: "org_acme", project_id: null },
      { org_id: "org_other", project_id: "proj_a" },
    ];
    writeNote(notes, "secret of acme", { id: "one" });
    for (const scope of other_scopes) {
      expect(findTexts(notes, "secret", 50, scope)).toEqual([]);
      for (let index = 0; index < 5; index += 1) {
        writeNote(notes, `secret ${index} of another`, {
          scope,
          max: 2,
          id: index === 0 ? "one" : `id${index}`,
        });
      }
      writeNote(notes, "secret of acme", { scope, max: 2, at: NOW + 1 });
    }
    expect(findTexts(notes, "secret", 50)).toEqual(["secret of acme"]);
    expect(notes.query({ scope: acme, query: "secret", k: 5, now: NOW })[0]!.at).toBe(
      "2026-05-01T00:00:00.000Z",
    );
    for (const scope of other_scopes) expect(findTexts(notes, "secret", 50, scope)).toHaveLength(2);
  });

  test("ranks a new entry above an old one if a half-life is set", () => {
    const notes = openTestNotes(full_text);
    writeNote(notes, "coffee with milk, coffee", { at: NOW - 30 * DAY });
    writeNote(notes, "coffee without sugar or milk", { at: NOW });
    for (let index = 0; index < 9; index += 1) writeNote(notes, `tea ${index}`);
    expect(findTexts(notes, "coffee milk", 1, acme, 1)).toEqual(["coffee without sugar or milk"]);
    if (full_text) expect(findTexts(notes, "coffee milk", 1)).toEqual(["coffee with milk, coffee"]);
  });

  test("finds any text by a word in it, and no query fails", () => {
    const notes = openTestNotes(full_text);
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", maxLength: 40 }),
        fc.string({ maxLength: 12 }),
        (text, query) => {
          const stored_text = `${text} needle`.toWellFormed();
          writeNote(notes, stored_text);
          expect(findTexts(notes, "needle", 50)).toContain(stored_text);
          expect(Array.isArray(findTexts(notes, query))).toBe(true);
          expect(Array.isArray(findTexts(notes, text))).toBe(true);
        },
      ),
      { numRuns: 25 },
    );
  });
});

test("ignores accents and case and matches a partly typed last word", () => {
  const notes = openTestNotes();
  writeNote(notes, "Das Café heißt Zürichberg");
  expect(findTexts(notes, "cafe")).toHaveLength(1);
  expect(findTexts(notes, "CAFÉ")).toHaveLength(1);
  expect(findTexts(notes, "zuri")).toHaveLength(1);
  expect(findTexts(notes, "zuri xyz")).toEqual([]);
  for (let index = 0; index < 100; index += 1) writeNote(notes, `route${index} is closed`);
  expect(findTexts(notes, "route1", 1)).toEqual(["route1 is closed"]);
});

test("computes the rarity of a word in each scope independently", () => {
  const notes = openTestNotes();
  const score = () => notes.query({ scope: acme, query: "apple", k: 1, now: NOW })[0]!.score;
  for (const text of ["apple pie", "plum", "pear", "fig"]) writeNote(notes, text);
  const initial_score = score();
  const scope = { org_id: "org_other", project_id: null };
  for (let index = 0; index < 50; index += 1) writeNote(notes, `apple ${index}`, { scope });
  expect(score()).toBe(initial_score);
});

test("limits the size of an answer to about a megabyte", () => {
  const notes = openTestNotes();
  for (let index = 0; index < 40; index += 1) writeNote(notes, `word ${index} ${"x".repeat(60_000)}`);
  const hits = findTexts(notes, "word", 50);
  expect(hits.length).toBeGreaterThan(10);
  expect(hits.join("").length).toBeLessThan(1_100_000);
});

test("finds entries that were written without FTS5, before and after the index was built", () => {
  writeNote(openTestNotes(false), "written without an index");
  const indexed = openTestNotes(true);
  expect(findTexts(indexed, "without")).toHaveLength(1);
  writeNote(openTestNotes(false), "written behind its back", { id: "late" });
  expect(findTexts(indexed, "behind")).toHaveLength(1);
  writeNote(indexed, "replaced", { id: "late" });
  expect(findTexts(indexed, "behind")).toEqual([]);
});

test("refuses a file from a newer release", () => {
  const database = openDatabase({ file: join(dir, "memory.db") });
  database.execute("pragma user_version = 9");
  database.close();
  expect(() => openDatabase({ file: join(dir, "memory.db") })).toThrow("newer release");
});

test("rolls back the whole batch when a write fails", () => {
  const notes = openTestNotes();
  const note = { text: "good", at: NOW };
  const bad = { text: "bad", at: 0.5 };
  expect(() =>
    notes.write([
      { scope: acme, note, max_entries: 10 },
      { scope: acme, note: bad, max_entries: 10 },
    ]),
  ).toThrow();
  expect(findTexts(notes, "good")).toEqual([]);
  expect(notes.count()).toBe(0);
  writeNote(notes, "good");
  expect(findTexts(notes, "good")).toEqual(["good"]);
});
