import { expect, test } from "vitest";
import { maskValue } from "../../src/config/config.ts";

test("masks the value of a secret key and no other value", () => {
  expect(maskValue("plugin.llm_openai.api_key", "0123456789")).toBe("****6789");
  for (const key of ["a.token.ttl", "api_key.a", "provider"])
    expect(maskValue(key, "0123456789")).toBe("0123456789");
});

test.each([
  ["0123456789", "****6789"],
  ["12345", "****2345"],
  ["1234", "****"],
  ["", "****"],
  [12_345_678, "****"],
  [null, "****"],
  [{ value: "0123456789" }, "****"],
  [["0123456789"], "****"],
])("masks %j as %s", (value, shown) => {
  expect(maskValue("a.api_key", value)).toBe(shown);
});
