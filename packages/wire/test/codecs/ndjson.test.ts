import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { encodeNdjson } from "../../src/index.ts";
import { decodeAll, feedUnlessPaused } from "./decode-all.ts";

const decode = (text: string) => decodeAll("ndjson", [Buffer.from(text)]);

verifies(
  "wire.frame.ndjson",
  "decodes one object per line and tolerates \\r\\n and blank lines",
  async () => {
    expect(await decode('{"a":1}\n\n{"b":2}\r\n\r\n  \t\n {"c":3} \n')).toEqual({
      frames: [{ a: 1 }, { b: 2 }, { c: 3 }],
      error: undefined,
    });
    expect(encodeNdjson({ text: "a\nb" })).toBe('{"text":"a\\nb"}\n');
  },
);

verifies("wire.frame.ndjson", "rejects a line that is not exactly one JSON object", async () => {
  for (const line of ['{"a":', '{"a":1}{"b":2}', "[1]", '"text"', "12", "null", "hello", '\ufeff{"a":1}']) {
    expect(await decode(`${line}\n{"next":1}\n`), line).toMatchObject({
      frames: [],
      error: { code: "frame_invalid" },
    });
  }
});

verifies("wire.frame.ndjson", "accepts a last line without a newline only if it is complete", async () => {
  expect((await decode('{"a":1}\n{"b":2}')).frames).toEqual([{ a: 1 }, { b: 2 }]);
  // A blank last line is ignored like any other.
  expect(await decode('{"a":1}\n \t\r')).toEqual({ frames: [{ a: 1 }], error: undefined });
  expect(await decode('{"a":1}\n{"b":')).toMatchObject({
    frames: [{ a: 1 }],
    error: { code: "frame_invalid" },
  });
});

verifies("wire.frame.limits", "rejects an unterminated line as soon as it exceeds the limit", async () => {
  expect(await feedUnlessPaused("ndjson", Buffer.alloc(64 * 1024, "x"), 100)).toEqual({
    pushed: 17,
    code: "frame_too_large",
  });
});

verifies(
  "wire.frame.limits",
  "accepts a line of exactly the limit, with \\n or \\r\\n, and rejects one more byte",
  async () => {
    const limits = { frame_bytes: 64 };
    const line = JSON.stringify({ text: "x".repeat(53) });
    for (const end of ["\n", "\r\n", ""]) {
      const decoded = await decodeAll("ndjson", [Buffer.from(line + end)], limits);
      expect(decoded.frames, JSON.stringify(end)).toHaveLength(1);
      const over = await decodeAll("ndjson", [Buffer.from(`${line} ${end}`)], limits);
      expect(over, JSON.stringify(end)).toMatchObject({ frames: [], error: { code: "frame_too_large" } });
    }
  },
);
