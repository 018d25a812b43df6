import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { OffThreadParser } from "../../src/codecs/off-thread-parser.ts";
import { parseFrame, previewBytes } from "../../src/codecs/parse-frame.ts";
import { type Codec, decodeAll, makeFrame } from "./decode-all.ts";

const nested = (depth: number): string => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;

const REFUSED: Record<string, string | Uint8Array> = {
  "text that is not JSON": "hello",
  "half an object": '{"a":',
  "single quotes": "{'a':1}",
  NaN: '{"a":NaN}',
  "a comment": '{"a":1/**/}',
  "a trailing comma": '{"a":1,}',
  "a list": "[1]",
  "a string": '"text"',
  null: "null",
  "a number": "7",
  "bytes that are not UTF-8": Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d),
  "an overlong encoding": Uint8Array.of(0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x3a, 0x31, 0x7d),
  "a surrogate in UTF-8": Uint8Array.of(0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d),
  "a lone high surrogate": '{"a":"\\ud800"}',
  "a lone low surrogate deep inside": '{"a":[{"b":["x\\udc00y"]}]}',
  "a lone surrogate in a key": '{"\\ud83d":1}',
  "a __proto__ key": '{"__proto__":{"polluted":true}}',
  "an escaped __proto__ key": '{"a":{"__pr\\u006fto__":{"polluted":true}}}',
  "constructor.prototype": '{"constructor":{"prototype":{"polluted":true}}}',
  "constructor.prototype in a list": '{"a":[{"constructor":{"prototype":1}}]}',
  "65 levels of nesting": nested(65),
  "100,000 levels of nesting": "[".repeat(100_000),
};
const ACCEPTED: Record<string, string> = {
  "the replacement character itself": '{"a":"\ufffd","\ufffd":1}',
  "a whole surrogate pair": '{"a":"\\ud83d\\ude00"}',
  "64 levels of nesting": nested(64),
  "a constructor key": '{"constructor":"Ferrari","list":[{"constructor":{"name":"x"}}]}',
  "the forbidden keys as values": '{"a":"__proto__","b":"constructor"}',
  "names of Object.prototype methods": '{"toString":1,"hasOwnProperty":2,"valueOf":null}',
};

for (const codec of ["content-length", "ndjson"] as Codec[]) {
  const wrap = (body: string | Uint8Array): Buffer =>
    codec === "ndjson" ? Buffer.concat([Buffer.from(body), Buffer.from("\n")]) : makeFrame(body);

  describe(codec, () => {
    for (const [name, body] of Object.entries(REFUSED)) {
      verifies("wire.frame.bad-json", `rejects ${name} and changes no prototype`, async () => {
        const decoded = await decodeAll(codec, [wrap(body)]);
        expect(decoded).toMatchObject({ frames: [], error: { code: "frame_invalid" } });
        expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
      });
    }
    for (const [name, body] of Object.entries(ACCEPTED)) {
      verifies("wire.frame.bad-json", `accepts ${name} as plain data`, async () => {
        const { frames, error } = await decodeAll(codec, [wrap(body)]);
        expect(error).toBeUndefined();
        expect(JSON.stringify(frames[0])).toBe(JSON.stringify(JSON.parse(body)));
        expect(Object.getPrototypeOf(frames[0])).toBe(Object.prototype);
      });
    }
  });
}

verifies(
  ["wire.frame.bad-json", "wire.frame.limits"],
  "the parser thread accepts and rejects the same frames as the main thread",
  async () => {
    const parser = new OffThreadParser();
    for (const [name, body] of Object.entries({ ...REFUSED, ...ACCEPTED })) {
      const bytes = Buffer.from(body);
      let expected: unknown;
      try {
        expected = { value: parseFrame(bytes, 64) };
      } catch (error) {
        expected = (error as Error).message;
      }
      const outcome = await parser.parse(bytes, 64);
      if ("problem" in outcome) expect(expected, name).toContain(outcome.problem);
      else if (typeof expected === "object") expect(outcome, name).toEqual(expected);
      else expect(expected, name).toContain("must be a JSON object");
    }
    parser.close();
  },
);

test("shortens stray output and removes unprintable characters", () => {
  expect(previewBytes(Buffer.from(`a\tb\nc\u0007\u001b[0m\u202e${"é".repeat(500)}`))).toBe(
    `a b c[0m${"é".repeat(192)}`,
  );
  expect(previewBytes(Uint8Array.of(0xff, 0xfe, 0x41))).toContain("A");
  expect(previewBytes(new Uint8Array())).toBe("");
});
