import { expect, test } from "vitest";
import { compileToolPatterns } from "../../src/policy/tool-pattern.ts";

test("matches any characters with a star and everything else literally", () => {
  const matches = (pattern: string, name: string) => compileToolPatterns([pattern])(name);
  for (const [pattern, name] of [
    ["read", "read"],
    ["*", "anything"],
    ["*", ""],
    ["mcp_*", "mcp_github_search"],
    ["*_search", "mcp_github_search"],
    ["mcp_*_se*h", "mcp_github_search"],
    ["a*a*b", "aXaYaZb"],
  ] as const)
    expect(matches(pattern, name), `${pattern} ${name}`).toBe(true);
  for (const [pattern, name] of [
    ["read", "reads"],
    ["mcp_*", "mcp-x"],
    ["a*b", "abc"],
    ["", "a"],
    ["a.c", "abc"],
  ] as const)
    expect(matches(pattern, name), `${pattern} ${name}`).toBe(false);
  const started = performance.now();
  expect(matches(`${"a*".repeat(60)}b`, "a".repeat(10_000))).toBe(false);
  expect(performance.now() - started).toBeLessThan(2_000);
});
