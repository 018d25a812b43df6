import { expect, test } from "vitest";
import { checkListing } from "../../src/archive/check-listing.ts";
import { UNPACK_LIMITS } from "../../src/archive/limits.ts";

const file = (path: string, size = 1) => ({ path, size, mode: "0644", sha256: "0".repeat(64) }) as const;
const LIMITS = { ...UNPACK_LIMITS, entries: 3, file_bytes: 10, unpacked_bytes: 15 };

test("accepts a tree within the limits", () => {
  expect(() => checkListing([file("a"), file("b/c", 10)], LIMITS)).not.toThrow();
});

test.each([
  ["too many files", ["a", "b", "c", "d"].map((path) => file(path)), "too-many-entries"],
  ["a large file", [file("a", 11)], "file-too-large"],
  ["files that are large together", [file("a", 9), file("b", 9)], "too-large"],
  ["names that some file systems do not distinguish", [file("README"), file("readme")], "collision"],
  ["a name that is reserved on Windows", [file("aux.js")], "reserved-name"],
  ["a path that leaves the tree", [file("../a")], "path-traversal"],
])("refuses %s", (_what, files, rule) => {
  expect(() => checkListing(files, LIMITS)).toThrow(
    expect.objectContaining({
      code: "package.unsafe",
      message: expect.stringMatching(/^The package was refused: /),
      details: expect.objectContaining({ rule }),
    }),
  );
});
