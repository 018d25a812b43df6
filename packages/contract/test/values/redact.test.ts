import { inspect } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createRedactor, REDACTED } from "../../src/values/redact.ts";
import { encodingsOf } from "../../src/values/secret-encodings.ts";

const SECRET = 'p@ss "wörd"/42+x~!';
const redactor = createRedactor([SECRET])!;
const base64 = (text: string) => Buffer.from(text).toString("base64");

/** The secret in the encodings that programs in several languages produce, each with the name of the encoding. */
const ENCODINGS: [string, string][] = [
  ["raw", SECRET],
  ["JSON.stringify", JSON.stringify(SECRET).slice(1, -1)],
  ["JSON with \\/", JSON.stringify(SECRET).slice(1, -1).replaceAll("/", "\\/")],
  ["Python's json.dumps", 'p@ss \\"w\\u00f6rd\\"/42+x~!'],
  ["JSON with upper-case escapes", 'p@ss \\"w\\u00F6rd\\"/42+x~!'],
  ["encodeURIComponent", encodeURIComponent(SECRET)],
  ["encodeURI", encodeURI(SECRET)],
  ["lower-case percent-encoding", encodeURIComponent(SECRET).replace(/%../g, (code) => code.toLowerCase())],
  ["URLSearchParams", new URLSearchParams({ a: SECRET }).toString().slice(2)],
  ["Python's quote", "p%40ss%20%22w%C3%B6rd%22/42%2Bx~%21"],
  ["Python's quote_plus", "p%40ss+%22w%C3%B6rd%22%2F42%2Bx~%21"],
  ["base64", base64(SECRET)],
  ["base64url", Buffer.from(SECRET).toString("base64url")],
  ["hex", Buffer.from(SECRET).toString("hex")],
  ["upper-case hex", Buffer.from(SECRET).toString("hex").toUpperCase()],
];

test.each(ENCODINGS)("redacts a secret encoded as: %s", (_, encoding) => {
  const clean = redactor.text(`before ${encoding} after`);
  expect(clean).toBe(`before ${REDACTED} after`);
});

test("redacts the output of repr and inspect", () => {
  const secret = `a\\b"c'd\n${"e".repeat(4)}`;
  const quoted_redactor = createRedactor([secret])!;
  for (const printed of [`'a\\\\b"c\\'d\\neeee'`, `\`a\\\\b"c'd\\neeee\``, inspect(secret)]) {
    expect(quoted_redactor.text(printed).slice(1, -1)).toBe(REDACTED);
  }
});

test("redacts base64 at any alignment and with line breaks", () => {
  for (const user of ["", "a", "ab", "abc", "abcd"]) {
    for (const rest of ["", "z", "zz", "zzz"]) {
      const clean = redactor.text(`Basic ${base64(user + SECRET + rest)}`);
      const left = Buffer.from(clean.replace("Basic ", "").replace(REDACTED, ""), "base64").toString(
        "latin1",
      );
      expect(clean).toContain(REDACTED);
      expect(left.length).toBeLessThan(user.length + rest.length + 5);
    }
  }
  const long = Array.from({ length: 40 }, (_, i) => `part${i}`).join("-");
  const lines = base64(long).replace(/.{76}/g, "$&\n");
  expect(createRedactor([long])!.text(`[${lines}]`)).toBe(`[${REDACTED}]`);
});

const word = fc.string({
  unit: fc.constantFrom("a", "b", "ab", "é", "/", '"', " ", "%", "7"),
  minLength: 4,
  maxLength: 24,
});

test("finds the same ranges as a naive search, with overlaps merged", () => {
  fc.assert(
    fc.property(
      fc.array(word, { minLength: 1, maxLength: 4 }),
      fc.array(word, { maxLength: 8 }),
      fc.nat(),
      (secrets, noise, seed) => {
        const parts = [...noise, secrets[seed % secrets.length]!, ...noise.toReversed()];
        const text = parts.join(seed % 2 === 0 ? "" : "-");
        const hidden = new Uint8Array(text.length);
        for (const needle of secrets.flatMap((secret) => [...encodingsOf(secret)])) {
          for (let at = text.indexOf(needle); at >= 0; at = text.indexOf(needle, at + 1)) {
            hidden.fill(1, at, at + needle.length);
          }
        }
        const redacted = new Uint8Array(text.length);
        for (const [from, to] of createRedactor(secrets)!.ranges(text)) redacted.fill(1, from, to);
        expect(redacted).toEqual(hidden);
      },
    ),
    { numRuns: 2_000 },
  );
});

test("leaves text without secrets unchanged", () => {
  const many = createRedactor(
    Array.from({ length: 64 }, (_, i) => `canary-${i}-${base64(String(i * 7919))}`),
  )!;
  fc.assert(
    fc.property(
      fc.string({ unit: "binary", maxLength: 200 }),
      fc.base64String({ maxLength: 400 }),
      (text, code) => {
        expect(many.text(text)).toBe(text);
        expect(many.text(code)).toBe(code);
      },
    ),
  );
  const image = base64(
    Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * i * 31 + (i >> 3)) & 255)).toString("latin1"),
  );
  // The encodings of a short secret must not match by chance inside an encoded image.
  expect(createRedactor(["true"])!.text(image)).toBe(image);
});

test("redacts values, keys and numbers and copies only changed parts", () => {
  const clean = { a: [1, "fine", null], b: true };
  expect(redactor.json(clean)).toBe(clean);
  const dirty = { a: [1, `x${SECRET}y`], [SECRET]: { deep: [SECRET] } };
  expect(redactor.json(dirty)).toEqual({ a: [1, `x${REDACTED}y`], [REDACTED]: { deep: [REDACTED] } });
  expect(createRedactor(["90210777"])!.json({ pin: 90210777, other: 1 })).toEqual({
    pin: REDACTED,
    other: 1,
  });
});

test("redacts a partial secret at both ends of an excerpt", () => {
  const long = "k".repeat(10) + Array.from({ length: 9_000 }, (_, i) => i).join(".");
  const both = createRedactor([long, SECRET])!;
  for (const length of [4, 17, 500, 20_000]) {
    expect(both.excerpt(`${long.slice(-length)} log`)).toBe(" log");
    // From 64 characters on, the start of a secret counts as a match and is replaced instead of dropped.
    expect(both.excerpt(`log ${long.slice(0, length)}`)).toBe(length < 64 ? "log " : `log ${REDACTED}`);
  }
  expect(both.excerpt(SECRET.slice(5))).toBe("");
  expect(both.partialSecretLength(`x${SECRET.slice(0, 6)}`)).toBe(6);
  expect(both.partialSecretLength(`x${SECRET.slice(0, 3)}`)).toBe(0);
});

test("redacts delegated tokens of other calls by their format", () => {
  const token = `vai_dlg_${"aB3-_".repeat(9)}`.slice(0, 51);
  expect(redactor.text(`a ${token}, ${SECRET} b vai_dlg_... c`)).toBe(
    `a ${REDACTED}, ${REDACTED} b vai_dlg_... c`,
  );
});

test("does not redact very short values", () => {
  expect(createRedactor([])).toBeNull();
  expect(createRedactor(["no", "", "123"])).toBeNull();
  expect(createRedactor(["longenough", "no"])!.text("no longenough")).toBe(`no ${REDACTED}`);
});

test("takes linear time for adversarial secrets and texts", () => {
  const many = createRedactor(
    Array.from({ length: 64 }, (_, i) => `canary-${i}-${base64(String(i * 7919))}`),
  )!;
  const evil = createRedactor([`${"a".repeat(65_535)}b`, "a".repeat(63), `${"a".repeat(40)}b`])!;
  const started = performance.now();
  expect(many.ranges("canary-".repeat(150_000))).toEqual([]);
  expect(evil.ranges("a".repeat(1 << 20))).toHaveLength(1);
  expect(evil.partialSecretLength("a".repeat(1 << 20))).toBe(65_535);
  // This takes about 40 ms; a search that restarts at every position takes minutes.
  expect(performance.now() - started).toBeLessThan(5_000);
});
