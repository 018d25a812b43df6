import { expect, test } from "vitest";
import { parseSearch, stringifySearch } from "../src/api/search.ts";
import { rankMatches } from "../src/app/rank-matches.ts";
import { jsonParts } from "../src/parts/json-text.ts";
import { shellCommand } from "../src/parts/shell-quote.ts";
import { countdownText, durationText, relativeTime } from "../src/parts/time-text.ts";

test("writes durations in the unit that a person would use", () => {
  expect([0, 850, 2_400, 12_345, 185_000, 7_800_000, 3_600_000].map(durationText)).toEqual([
    "0 ms",
    "850 ms",
    "2.4 s",
    "12 s",
    "3 min 5 s",
    "2 h 10 min",
    "1 h",
  ]);
});

test("counts down to the second and stops at zero", () => {
  expect([-5, 0, 400, 65_000, 3_723_000].map(countdownText)).toEqual([
    "0:00",
    "0:00",
    "0:01",
    "1:05",
    "1:02:03",
  ]);
});

test("writes a time relative to now, and as a date if it is more than a week away", () => {
  const now = Date.UTC(2026, 4, 20, 12);
  const before = (ms: number) => relativeTime(now - ms, now);
  expect([2_000, 30_000, 180_000, 7_200_000, 30 * 86_400_000].map(before)).toEqual([
    "just now",
    "30 sec. ago",
    "3 min. ago",
    "2 hr. ago",
    "Apr 20, 2026",
  ]);
  expect(relativeTime(now + 120_000, now)).toBe("in 2 min.");
});

test("quotes the words of a command so that a shell reads exactly these words", () => {
  expect(shellCommand("backplane", "invoke", "a.b", "--input", `{"text":"it's $HOME"}`)).toBe(
    `backplane invoke a.b --input '{"text":"it'\\''s $HOME"}'`,
  );
});

test("colors keys, texts, numbers and literals of JSON without changing it", () => {
  const text = JSON.stringify({ "a: b": 'x "y" 1 true', n: -1.5e3, ok: null }, null, 2);
  const parts = jsonParts(text);
  expect(parts.map((part) => part.text).join("")).toBe(text);
  expect(parts.filter(({ kind }) => kind !== "plain").map(({ kind }) => kind)).toEqual([
    "key",
    "string",
    "key",
    "number",
    "key",
    "literal",
  ]);
});

test("keeps search parameters as plain text in the URL", () => {
  const url = stringifySearch({ status: "failed", export: "5", session: "", binding: undefined });
  expect(url).toBe("?status=failed&export=5");
  expect(parseSearch(url)).toEqual({ status: "failed", export: "5" });
});

test("finds the items that contain every word, and puts those with an earlier match first", () => {
  const names = ["API explorer", "Plugins", "Approvals", "explore-files"];
  const search = (query: string) => rankMatches(names, query, (name) => name);
  expect(search("expl")).toEqual(["explore-files", "API explorer"]);
  expect(search("expl api")).toEqual(["API explorer"]);
  expect(search("")).toEqual(names);
});
