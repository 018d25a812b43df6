import { expect, test } from "vitest";
import { rankMatches } from "../../src/app/rank-matches.ts";

test("finds the items that contain every word, and puts those with an earlier match first", () => {
  const names = ["API explorer", "Plugins", "Approvals", "explore-files"];
  const search = (query: string) => rankMatches(names, query, (name) => name);
  expect(search("expl")).toEqual(["explore-files", "API explorer"]);
  expect(search("expl api")).toEqual(["API explorer"]);
  expect(search("")).toEqual(names);
});
