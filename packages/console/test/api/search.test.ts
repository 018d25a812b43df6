import { expect, test } from "vitest";
import { parseSearch, stringifySearch } from "../../src/api/search.ts";

test("keeps search parameters as plain text in the URL", () => {
  const url = stringifySearch({ status: "failed", export: "5", session: "", binding: undefined });
  expect(url).toBe("?status=failed&export=5");
  expect(parseSearch(url)).toEqual({ status: "failed", export: "5" });
});
