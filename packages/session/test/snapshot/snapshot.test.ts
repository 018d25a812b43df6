import fc from "fast-check";
import { expect, test } from "vitest";
import { isShared, share, snapshot } from "../../src/snapshot/snapshot.ts";
import { codeOfThrown } from "../bus/test-bus.ts";

test("copies and freezes a payload, so later changes by its publisher have no effect", () => {
  const history = [{ role: "user", content: "hi" }];
  const copy = snapshot({ messages: history, tools: undefined }) as { messages: typeof history };
  history.push({ role: "user", content: "later" });
  history[0]!.content = "changed";
  expect(copy).toEqual({ messages: [{ role: "user", content: "hi" }] });
  expect(Object.isFrozen(copy) && Object.isFrozen(copy.messages) && Object.isFrozen(copy.messages[0])).toBe(
    true,
  );
  expect(Object.isFrozen(history)).toBe(false);
});

test("preserves JSON objects without the key __proto__", () => {
  const json = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 6 }));
  fc.assert(
    fc.property(json, (value) => {
      fc.pre(!JSON.stringify(value).includes("__proto__"));
      expect(JSON.stringify(snapshot(value))).toBe(JSON.stringify(value));
    }),
  );
});

test("rejects values that are not plain data", () => {
  const loop: Record<string, unknown> = {};
  loop.self = loop;
  const unsupported = [
    new Date(),
    new Map(),
    () => {},
    Symbol("s"),
    1n,
    Buffer.from("a"),
    new (class Own {})(),
    loop,
  ];
  for (const value of unsupported) {
    expect([String(typeof value), codeOfThrown(() => snapshot({ value }))]).toEqual([
      typeof value,
      "request.invalid",
    ]);
    expect(codeOfThrown(() => snapshot({ list: [value] }))).toBe("request.invalid");
  }
  expect(codeOfThrown(() => snapshot(JSON.parse('{"a":{"__proto__":{"admin":true}}}')))).toBe(
    "request.invalid",
  );
  expect(snapshot(Object.assign(Object.create(null) as object, { a: 1 }))).toEqual({ a: 1 });
});

test("a shared value is copied once and later payloads contain that copy", () => {
  const original = { role: "user", content: [{ text: "hi" }] };
  const message = share(original);
  original.content[0]!.text = "changed";
  expect(message).toEqual({ role: "user", content: [{ text: "hi" }] });
  expect(Object.isFrozen(message) && Object.isFrozen(message.content[0])).toBe(true);
  const { messages } = snapshot({ messages: [message, { ...message }] }) as { messages: unknown[] };
  expect(messages[0]).toBe(message);
  expect(messages[1]).not.toBe(message);
  expect(messages[1]).toEqual(message);
  expect([isShared(message), isShared(original), isShared(Object.freeze({}))]).toEqual([true, false, false]);
});

test("shared values do not bypass the limits of a payload", () => {
  const nested = (depth: number): Record<string, unknown> => (depth === 1 ? {} : { in: nested(depth - 1) });
  const deep = share(nested(60));
  expect(isShared(deep)).toBe(true);
  const wrapped = (levels: number): object => (levels === 0 ? deep : [wrapped(levels - 1)]);
  expect(() => snapshot({ up: wrapped(3) })).not.toThrow();
  expect(codeOfThrown(() => snapshot({ up: wrapped(4) }))).toBe("request.invalid");
  const unsupported = { at: new Date(0) };
  expect(share(unsupported)).toBe(unsupported);
  expect(codeOfThrown(() => snapshot({ unsupported }))).toBe("request.invalid");
});

test("converts numbers that JSON cannot represent as JSON does", () => {
  const payload = { a: Number.NaN, b: [Number.POSITIVE_INFINITY, 1.5], c: { d: -Infinity, e: -0 } };
  const copied = snapshot(payload);
  expect(copied).toEqual(JSON.parse(JSON.stringify(payload)));
  expect(copied).toEqual({ a: null, b: [null, 1.5], c: { d: null, e: 0 } });
  expect(share(payload)).toEqual(copied);
});
