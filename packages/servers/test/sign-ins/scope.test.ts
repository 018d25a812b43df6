import { expect, test } from "vitest";
import type { Discovered } from "../../src/sign-ins/discovery.ts";
import { chooseScope, covers, union } from "../../src/sign-ins/scope.ts";

const found = (scopes: string[]) => ({ scopes, server: { scopes: null } }) as unknown as Discovered;

test("what is no scope by the letter of OAuth is not asked for", () => {
  expect(union("notes", 'a\u202e b"c d\ne write')).toBe("notes write");
  // Nor waited for: a sign-in that asked for the rest has asked for all.
  expect([covers("notes", 'notes b"c'), covers("notes", "notes write")]).toEqual([true, false]);
  expect(chooseScope(undefined, null, found(["read", "x\u0000", "öl"]), null)).toBe("read");
});

test("a server that names scopes without end has to be told which ones", () => {
  const many = Array.from({ length: 2_000 }, (_, i) => `scope-${i}`);
  expect(() => chooseScope(undefined, null, found(many), null)).toThrow("--scope");
  expect(chooseScope("scope-1", null, found(many), null)).toBe("scope-1");
});
