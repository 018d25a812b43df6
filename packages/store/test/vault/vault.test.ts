import { randomBytes } from "node:crypto";
import { createSecretVault } from "@backplane/store";
import { expect, test } from "vitest";

const old = { id: "k1", key: randomBytes(32) };
const newest = { id: "k2", key: randomBytes(32) };
const unreadable = expect.objectContaining({ code: "internal", retryable: false });

test("opens a sealed value, and never seals to the same text twice", () => {
  const vault = createSecretVault([newest]);
  for (const value of ["s3cret", "", "ü\u0000\u{1F511}", "x".repeat(65_536)]) {
    const sealed = vault.seal("org_a", "token", value);
    expect(vault.open("org_a", "token", sealed)).toBe(value);
    expect(vault.seal("org_a", "token", value)).not.toBe(sealed);
    if (value.length > 5) expect(sealed).not.toContain(value);
  }
});

test("does not open a value that was moved to another org or name", () => {
  const vault = createSecretVault([newest]);
  const sealed = vault.seal("org_a", "token", "s3cret");
  expect(() => vault.open("org_b", "token", sealed)).toThrow(unreadable);
  expect(() => vault.open("org_a", "other", sealed)).toThrow(unreadable);
  expect(() => vault.open('org_a","to', "ken", sealed)).toThrow(unreadable);
});

test("detects a changed character and a truncated value", () => {
  const vault = createSecretVault([newest]);
  const sealed = vault.seal("org_a", "token", "s3cret");
  for (let at = 0; at < sealed.length - 1; at++) {
    const changed = sealed.slice(0, at) + (sealed[at] === "A" ? "B" : "A") + sealed.slice(at + 1);
    expect(() => vault.open("org_a", "token", changed)).toThrow();
  }
  expect(() => vault.open("org_a", "token", sealed.slice(0, -10))).toThrow(unreadable);
  expect(() => vault.open("org_a", "token", "")).toThrow(unreadable);
});

test("seals with the newest key and opens with older ones", () => {
  const before = createSecretVault([old]).seal("org_a", "token", "s3cret");
  const both = createSecretVault([newest, old]);
  expect(both.open("org_a", "token", before)).toBe("s3cret");
  const after = both.seal("org_a", "token", "s3cret");
  expect(() => createSecretVault([old]).open("org_a", "token", after)).toThrow(unreadable);
  expect(() => createSecretVault([{ ...old, id: "k2" }]).open("org_a", "token", after)).toThrow(unreadable);
});

test("refuses a vault without a valid key", () => {
  const invalid = expect.objectContaining({ code: "config.invalid" });
  expect(() => createSecretVault([])).toThrow(invalid);
  expect(() => createSecretVault([{ id: "k", key: randomBytes(16) }])).toThrow(invalid);
  expect(() => createSecretVault([{ id: "a.b", key: randomBytes(32) }])).toThrow(invalid);
  expect(() => createSecretVault([old, old])).toThrow(invalid);
});

test("stores a new key before sealing with it, and finds a key that another process added", () => {
  const stored_keys = [old];
  const file = {
    read: () => stored_keys.toReversed(),
    append: (key: typeof old) => void stored_keys.push(key),
  };
  const first = createSecretVault(file.read(), file);
  const second = createSecretVault(file.read(), file);
  const before = first.seal("org_a", "token", "s3cret");
  first.addKey();
  expect(stored_keys).toHaveLength(2);
  expect(first.keys().map(({ id }) => id)).toEqual([stored_keys[1]!.id, old.id]);
  const after = first.seal("org_a", "token", "s3cret");
  expect(after.startsWith(first.keys()[0]!.prefix)).toBe(true);
  for (const text of [before, after]) expect(second.open("org_a", "token", text)).toBe("s3cret");
  const full_disk = createSecretVault([old], {
    read: () => [old],
    append() {
      throw new Error("disk full");
    },
  });
  expect(() => full_disk.addKey()).toThrow("disk full");
  expect(full_disk.keys()).toHaveLength(1);
  expect(() => createSecretVault([old]).addKey()).toThrow(
    expect.objectContaining({ code: "config.invalid" }),
  );
});
