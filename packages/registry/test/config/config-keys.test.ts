import { isConfigKey, isSecretConfigKey } from "@backplane/contract";
import { expect, test } from "vitest";
import { maskValue } from "../../src/config/config.ts";

test.each([
  ["plugin.llm_openai.api_key", true],
  ["api_key", true],
  ["a.token", true],
  ["a.secret", true],
  ["a.password", true],
  ["a.db_password", true],
  ["mcp.env.GITHUB_TOKEN", true],
  ["a.token.ttl", false],
  ["a.tokens", false],
  ["a.apikey", false],
  ["a.mytoken", false],
  ["a.max-token", false],
  ["api_key.a", false],
  ["provider", false],
])("decides whether %s is a secret key: %s", (key, secret) => {
  expect(isSecretConfigKey(key)).toBe(secret);
  expect(maskValue(key, "0123456789") === "0123456789").toBe(!secret);
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

test.each([
  ["a", true],
  ["providers.azure-prod.base_url", true],
  ["_meta.providers_seeded_at", true],
  ["x".repeat(256), true],
  ["x".repeat(257), false],
  ["", false],
  [".", false],
  ["a.", false],
  [".a", false],
  ["a..b", false],
  ["a b", false],
  ["a/b", false],
  ["a.*", false],
  ["ä", false],
  ["a.__proto__.b", false],
  ["__proto__", false],
  ["a\n", false],
])("decides whether %j is a valid key: %s", (key, ok) => {
  expect(isConfigKey(key)).toBe(ok);
});
