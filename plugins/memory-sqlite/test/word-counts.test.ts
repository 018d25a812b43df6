import { rmSync } from "node:fs";
import { join } from "node:path";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { expect, onTestFinished, test } from "vitest";
import { openDatabase } from "../src/database.ts";
import { createNotes } from "../src/notes.ts";
import { createWordCounts } from "../src/word-counts.ts";

const scope = { org_id: "org_acme", project_id: null };

/** `the` and `café` are in every entry, `even` is in half of them, and each entry has a unique number. */
function createFilledDatabase() {
  const dir = createMemoryFolder("memory-");
  const database = openDatabase({ file: join(dir, "memory.db") });
  onTestFinished(() => {
    database.close();
    rmSync(dir, { recursive: true });
  });
  const add = (from: number) =>
    createNotes(database).write(
      Array.from({ length: 2_000 }, (_, index) => ({
        scope,
        note: { text: `the café ${index % 2 === 0 ? "even" : "odd"} n${from + index}`, at: index },
        max_entries: 10_000,
      })),
    );
  add(0);
  return { database, add };
}

test("leaves out the most common words of an expensive search, never the rarest", () => {
  const { database } = createFilledDatabase();
  const terms = ["the", "CAFÉ", "even", "n7"];
  const chosen = (budget: number) => createWordCounts(database, budget).selectAffordable(1, 2_000, terms);
  expect(chosen(8_000)).toEqual(terms);
  expect(chosen(5_001)).toEqual(terms);
  expect(chosen(5_000)).toEqual(["the", "even", "n7"]);
  expect(chosen(3_000)).toEqual(["even", "n7"]);
  expect(chosen(0)).toEqual(["n7"]);
  expect(createWordCounts(database, 10).selectAffordable(1, 2_000, ["even", "the"])).toEqual(["even"]);
});

test("caches a count until the scope has changed by more than a tenth", () => {
  const { database, add } = createFilledDatabase();
  const counts = createWordCounts(database, 3_500);
  const terms = ["the", "n7"];
  expect(counts.selectAffordable(1, 2_000, terms)).toEqual(terms);
  add(2_000);
  expect(counts.selectAffordable(1, 2_200, terms)).toEqual(terms);
  expect(counts.selectAffordable(1, 4_000, terms)).toEqual(["n7"]);
});
