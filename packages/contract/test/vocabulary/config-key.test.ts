import { expect, test } from "vitest";
import { isConfigKey, isSecretConfigKey } from "../../src/vocabulary/config-key.ts";

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
