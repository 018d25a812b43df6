import { REDACTED } from "@backplane/contract";
import { expect, test } from "vitest";
import { createCallRedactor, redactorWithRecent } from "../../src/secrets/redact.ts";

const SECRET = 'p@ss "wörd"/42+x';
const redactor = createCallRedactor([SECRET]);

test.each([
  ["raw", SECRET],
  ["JSON-escaped", JSON.stringify(SECRET).slice(1, -1)],
  ["URL-encoded", encodeURIComponent(SECRET)],
  ["base64", Buffer.from(SECRET).toString("base64").replace(/=+$/, "")],
  ["base64url", Buffer.from(SECRET).toString("base64url")],
])("redacts a secret in the %s form", (_, encoding) => {
  expect(redactor.text(`before ${encoding} after`)).not.toContain(encoding.slice(2, -2));
  expect(redactor.text(`before ${encoding} after`)).toContain(REDACTED);
});

test("redacts base64 at any alignment, as in a Basic header", () => {
  for (const user of ["a:", "ab:", "abc:", "abcd:"]) {
    const header = Buffer.from(`${user}${SECRET}`).toString("base64");
    const clean = redactor.text(header);
    expect(clean).toContain(REDACTED);
    const left = Buffer.from(clean.replace(REDACTED, ""), "base64").toString("latin1");
    expect(left).not.toContain(SECRET.slice(1, 6));
  }
});

test("redacts values and keys and copies only what it changes", () => {
  const clean = { a: [1, "fine", null], b: true };
  expect(redactor.json(clean)).toBe(clean);
  const dirty = { a: [1, `x${SECRET}y`], [SECRET]: { deep: [SECRET] } };
  expect(redactor.json(dirty)).toEqual({ a: [1, `x${REDACTED}y`], [REDACTED]: { deep: [REDACTED] } });
  expect(dirty.a[1]).toBe(`x${SECRET}y`);
});

test("keeps a key named __proto__ as a plain key", () => {
  const value = JSON.parse(`{"__proto__": {"polluted": true}, "s": ${JSON.stringify(SECRET)}}`);
  const clean = redactor.json(value);
  expect(Object.getPrototypeOf(clean)).toBe(Object.prototype);
  expect(JSON.stringify(clean)).toBe(`{"__proto__":{"polluted":true},"s":"${REDACTED}"}`);
});

test("drops the part of a secret that was cut at either end", () => {
  expect(redactor.excerpt(`${SECRET.slice(5)} rest of the log`)).toBe(" rest of the log");
  expect(redactor.excerpt(`start of the log ${SECRET.slice(0, 9)}`)).toBe("start of the log ");
});

test("does nothing without secrets and ignores very short ones", () => {
  expect(createCallRedactor([]).active).toBe(false);
  expect(createCallRedactor(["no", ""]).active).toBe(false);
  expect(createCallRedactor(["longenough", "no"]).text("no longenough")).toBe(`no ${REDACTED}`);
});

test("redacts values of earlier calls on the same process, and reuses the call's own redactor otherwise", () => {
  const context = (token: string) => ({ secrets: { slot: token }, gateway: {} }) as never;
  const recent: string[] = [];
  const first = createCallRedactor(["value-before"]);
  expect(redactorWithRecent(recent, context("value-before"), first)).toBe(first);
  expect(redactorWithRecent(recent, context("value-before"), first)).toBe(first);
  const second = createCallRedactor(["value-after"]);
  const combined = redactorWithRecent(recent, context("value-after"), second);
  expect(combined.text("value-before value-after")).toBe(`${REDACTED} ${REDACTED}`);
  for (let i = 0; i < 20; i++) redactorWithRecent(recent, context(`value-${i}`), second);
  expect(recent).toHaveLength(8);
});
