import fc from "fast-check";
import { expect, test } from "vitest";
import { createEventRedactor, createRedactor, type PluginCallEvent } from "../../src/calls/redact.ts";

const SECRET = "sk-canary/0123456789+abcdef";
const redactor = createRedactor([SECRET])!;

function redactAll(events: PluginCallEvent[]): PluginCallEvent[] {
  const out: PluginCallEvent[] = [];
  const stream = createEventRedactor(redactor, (event) => void out.push(event));
  for (const event of events) stream.add(event);
  stream.flush();
  return out;
}

const delta = (text: string): PluginCallEvent => ({ type: "delta", block: { text } });
const joinText = (events: PluginCallEvent[]) =>
  events.map((event) => (event.type === "delta" ? (event.block as { text: string }).text : "")).join("");

test("redacts a secret that is split across events at any position", () => {
  const encodings = [SECRET, encodeURIComponent(SECRET), Buffer.from(SECRET).toString("base64")];
  fc.assert(
    fc.property(
      fc.constantFrom(...encodings),
      fc.array(fc.integer({ min: 4, max: 9 }), { minLength: 1, maxLength: 20 }),
      fc.string({ maxLength: 12 }),
      fc.boolean(),
      (encoding, sizes, before, between) => {
        const text = `${before}.${encoding}. after`;
        const chunks: PluginCallEvent[] = [];
        for (let at = 0, i = 0; at < text.length; at += sizes[i++ % sizes.length]!) {
          chunks.push(delta(text.slice(at, at + sizes[i % sizes.length]!)));
          if (between) chunks.push({ type: "progress", message: `step ${at}` });
        }
        const out = redactAll(chunks);
        expect(out.map((event) => event.type)).toEqual(chunks.map((event) => event.type));
        const redacted_text = joinText(out);
        // Up to three characters may be emitted before the redactor can notice a secret.
        expect(redacted_text).not.toContain(encoding.slice(3));
        expect(redacted_text).toContain("[redacted]");
        expect(redacted_text.startsWith(before)).toBe(true);
        expect(redacted_text.endsWith(". after")).toBe(true);
      },
    ),
    { numRuns: 500 },
  );
});

test("redacts a secret that arrives one character per event", () => {
  const out = joinText(redactAll(`key: ${SECRET} end`.split("").map(delta)));
  expect(out).toMatch(/^key: .{0,3}\[redacted\] end$/);
});

test("emits held events without a secret unchanged and in order, at the latest when the call ends", () => {
  const events = [delta("so sk-c"), delta("at is no secret"), delta("again sk-can")];
  const out: PluginCallEvent[] = [];
  const stream = createEventRedactor(redactor, (event) => void out.push(event));
  stream.add(events[0]!);
  expect(out).toEqual([]);
  stream.add(events[1]!);
  expect(out).toEqual(events.slice(0, 2));
  stream.add(events[2]!);
  expect(out).toHaveLength(2);
  stream.flush();
  expect(out).toEqual(events);
});

test("holds a bounded number of events", () => {
  const out: PluginCallEvent[] = [];
  const stream = createEventRedactor(redactor, (event) => void out.push(event));
  stream.add(delta("sk-can"));
  for (let i = 0; i < 100; i++) stream.add({ type: "progress", message: "working" });
  expect(out.length).toBeGreaterThan(90);
});
