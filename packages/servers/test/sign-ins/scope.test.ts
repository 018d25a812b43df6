import { expect, test } from "vitest";
import type { DiscoveredServer } from "../../src/sign-ins/discovery.ts";
import { chooseScope, includesScopes, unionScopes } from "../../src/sign-ins/scope.ts";

const createDiscoveredServer = (scopes: string[]) =>
  ({ scopes, server: { scopes: null } }) as unknown as DiscoveredServer;

test("drops scopes with characters that RFC 6749 does not allow", () => {
  expect(unionScopes("notes", 'a\u202e b"c d\ne write')).toBe("notes write");
  // Invalid scopes are not required either, because a sign-in cannot request them.
  expect([includesScopes("notes", 'notes b"c'), includesScopes("notes", "notes write")]).toEqual([
    true,
    false,
  ]);
  expect(chooseScope(undefined, null, createDiscoveredServer(["read", "x\u0000", "öl"]), null)).toBe("read");
});

test("refuses an overlong list of scopes and suggests --scope", () => {
  const many = Array.from({ length: 2_000 }, (_, i) => `scope-${i}`);
  expect(() => chooseScope(undefined, null, createDiscoveredServer(many), null)).toThrow("--scope");
  expect(chooseScope("scope-1", null, createDiscoveredServer(many), null)).toBe("scope-1");
});
