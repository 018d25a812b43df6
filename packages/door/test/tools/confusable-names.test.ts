import { expect, test } from "vitest";
import { findNameProblem, skeletonOf } from "../../src/tools/confusable-names.ts";

test("gives names that look alike the same skeleton", () => {
  const alike = [
    ["read", "Read", "rеad", "ｒｅａｄ", "re\u0301ad", "re\u200bad"],
    ["list_all", "Iist_all", "1ist_all", "list_aIl"],
    ["modern", "rnodern", "мodern"],
    ["go", "g0", "gо"],
  ];
  for (const [first, ...others] of alike) {
    for (const other of others) expect(skeletonOf(other), other).toBe(skeletonOf(first!));
  }
  const apart = ["read", "reads", "read_", "re-ad", "list_all", "list-all", "dear"];
  expect(new Set(apart.map(skeletonOf)).size).toBe(apart.length);
});

test("rejects names with invisible characters and names that are not in normal form", () => {
  for (const name of ["read", "Read-it_2", "naïve"]) expect(findNameProblem(name)).toBeNull();
  for (const name of ["re\u0000ad", "re\u200bad", "re ad", "re\u202ead"])
    expect(findNameProblem(name)).toContain("invisible");
  expect(findNameProblem("ｒｅａｄ")).toContain("NFKC");
});
