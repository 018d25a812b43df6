import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { FrameAssembly } from "../../src/codecs/frame-assembly.ts";
import { ContentLengthDecoder, encodeContentLength, frameLimits } from "../../src/index.ts";
import { decodeAll, feedUnlessPaused, makeFrame } from "./decode-all.ts";

const decode = (...chunks: (string | Uint8Array)[]) =>
  decodeAll(
    "content-length",
    chunks.map((chunk) => Buffer.from(chunk)),
  );

verifies("wire.frame.content-length", "counts the length in bytes, not in characters", async () => {
  const body = '{"text":"ä€😀"}';
  expect(encodeContentLength({ text: "ä€😀" })).toBe(
    `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  expect(await decode(makeFrame(body), makeFrame('{"a":1}'))).toEqual({
    frames: [{ text: "ä€😀" }, { a: 1 }],
    error: undefined,
  });
});

verifies("wire.frame.content-length", "ignores other headers and the case of header names", async () => {
  const { frames, error } = await decode(
    'Content-Type: application/json; charset=utf-8\r\nCONTENT-length:7\r\nX-Other: a: b\r\n\r\n{"a":1}',
    'content-Length: \t 7 \r\n\r\n{"b":2}',
    'Content-Length: 7\r\n\r\n{"c":3}',
    'Content-Length: 007\r\n\r\n{"d":4}',
  );
  expect(error).toBeUndefined();
  expect(frames).toEqual([{ a: 1 }, { b: 2 }, { c: 3 }, { d: 4 }]);
});

describe("invalid headers", () => {
  const invalid_headers: Record<string, string> = {
    "a missing length": "Content-Type: x\r\n\r\n{}",
    "an empty header": "\r\n\r\n{}",
    "a duplicate length": "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a duplicate length in another case": "Content-Length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "a negative length": "Content-Length: -5\r\n\r\n{}",
    "a signed length": "Content-Length: +2\r\n\r\n{}",
    "letters after the length": "Content-Length: 12abc\r\n\r\n{}",
    "an exponent": "Content-Length: 1e9\r\n\r\n{}",
    "a hexadecimal length": "Content-Length: 0x10\r\n\r\n{}",
    "a fraction": "Content-Length: 2.0\r\n\r\n{}",
    "two values": "Content-Length: 2, 2\r\n\r\n{}",
    "a space inside the length": "Content-Length: 1 0\r\n\r\n{}",
    "digits that are not ASCII": "Content-Length: ٢\r\n\r\n{}",
    "an empty length": "Content-Length: \r\n\r\n{}",
    "a length of zero": "Content-Length: 0\r\n\r\n",
    "a space before the colon": "Content-Length : 2\r\n\r\n{}",
    "a folded line": "X: a\r\n Content-Length: 2\r\n\r\n{}",
    "bare line feeds": "Content-Length: 2\n\n{}",
    "a header without a colon": "Content-Length 2\r\n\r\n{}",
    "a zero byte": "Content-Length: 2\0\r\n\r\n{}",
  };
  for (const [name, bytes] of Object.entries(invalid_headers)) {
    verifies("wire.frame.bad-length", `rejects ${name}`, async () => {
      const decoded = await decode(bytes, '{"never":"read"}');
      expect(decoded.frames).toEqual([]);
      expect(decoded.error?.code).toBe("frame_invalid");
      const single = await decode(...Array.from(Buffer.from(bytes), (byte) => Uint8Array.of(byte)));
      expect(single).toEqual({ frames: [], error: expect.objectContaining({ code: "frame_invalid" }) });
    });
  }

  verifies(
    "wire.frame.bad-length",
    "rejects a length that does not match the body and delivers no later frame",
    async () => {
      const short = await decode('Content-Length: 3\r\n\r\n{"a":1}');
      expect(short).toMatchObject({ frames: [], error: { code: "frame_invalid" } });
      const long = await decode('Content-Length: 9\r\n\r\n{"a":1}', makeFrame('{"b":2}'));
      expect(long).toMatchObject({ frames: [], error: { code: "frame_invalid" } });
    },
  );
});

describe("limits", () => {
  verifies("wire.frame.limits", "rejects a frame over the limit before its body arrives", () => {
    const errors: unknown[] = [];
    const decoder = new ContentLengthDecoder(
      frameLimits(),
      () => undefined,
      (error) => errors.push(error.code),
    );
    decoder.push(Buffer.from(`Content-Length: ${1024 * 1024 + 1}\r\n\r\n`));
    expect(errors).toEqual(["frame_too_large"]);
    const huge = new ContentLengthDecoder(
      frameLimits(),
      () => undefined,
      (error) => errors.push(error.code),
    );
    huge.push(Buffer.from(`Content-Length: ${"9".repeat(400)}\r\n\r\n`));
    expect(errors).toEqual(["frame_too_large", "frame_too_large"]);
  });

  verifies(
    "wire.frame.limits",
    "accepts a frame and a header of exactly their limits, and rejects a longer header",
    async () => {
      const limits = { frame_bytes: 64, header_bytes: 256 };
      const body = JSON.stringify({ text: "x".repeat(53) });
      const header = `X: ${"y".repeat(256 - 3 - 2 - 18 - 4)}\r\nContent-Length: 64\r\n\r\n`;
      expect([body.length, header.length]).toEqual([64, 256]);
      expect((await decodeAll("content-length", [Buffer.from(header + body)], limits)).frames).toHaveLength(
        1,
      );
      const over = await decodeAll("content-length", [Buffer.from(`X${header}${body}`)], limits);
      expect(over).toMatchObject({ frames: [], error: { code: "frame_invalid" } });
      expect(frameLimits()).toEqual({ frame_bytes: 1_048_576, header_bytes: 4_096, json_depth: 64 });
    },
  );

  verifies("wire.frame.limits", "rejects a header that does not end within 4 KiB", async () => {
    expect(await feedUnlessPaused("content-length", Buffer.from("X"), 100_000)).toEqual({
      pushed: 4_096,
      code: "frame_invalid",
    });
  });

  verifies("wire.frame.limits", "does not allocate memory for announced bytes", () => {
    const decoders: ContentLengthDecoder[] = [];
    const initial_bytes = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < 200; i++) {
      const decoder = new ContentLengthDecoder(
        frameLimits(),
        () => undefined,
        () => undefined,
      );
      decoder.push(Buffer.from(`Content-Length: ${1024 * 1024}\r\n\r\n{`));
      decoders.push(decoder);
    }
    // 200 MiB were announced, 200 bytes arrived.
    expect(process.memoryUsage().arrayBuffers - initial_bytes).toBeLessThan(16 * 1024 * 1024);
    expect(decoders).toHaveLength(200);
  });

  verifies(
    "wire.frame.limits",
    "uses memory in proportion to the received bytes, even if they arrive one at a time",
    () => {
      const body = new FrameAssembly();
      const initial = process.memoryUsage();
      const byte = Buffer.from(" ");
      for (let i = 0; i < 1024 * 1024; i++) body.add(byte, 1024 * 1024);
      const after = process.memoryUsage();
      expect(body.length).toBe(1024 * 1024);
      expect(after.arrayBuffers - initial.arrayBuffers).toBeLessThan(8 * 1024 * 1024);
      expect(after.heapUsed - initial.heapUsed).toBeLessThan(32 * 1024 * 1024);
    },
  );
});

test("fails if the stream ends inside a frame", async () => {
  for (const truncated of ["Content-Le", "Content-Length: 7\r\n\r\n", 'Content-Length: 7\r\n\r\n{"a"']) {
    expect(await decode(truncated)).toMatchObject({ frames: [], error: { code: "frame_invalid" } });
  }
});

function strayOutputOf(chunk: string): unknown {
  let stray: unknown;
  const decoder = new ContentLengthDecoder(
    frameLimits(),
    () => undefined,
    (error) => {
      stray = error.details?.stray_output;
    },
  );
  decoder.push(Buffer.from(chunk));
  return stray;
}

test("reports a printed line as soon as its line feed arrives", () => {
  expect(strayOutputOf("\u001b[32mListening on port 80\u001b[0m\n")).toBe("[32mListening on port 80[0m");
});

test("excludes a frame that arrives together with printed lines from the stray output", () => {
  const frame = 'Content-Length: 7\r\n\r\n{"a":1}';
  expect(strayOutputOf(`one\ntwo\n${frame}`)).toBe("one two");
  expect(strayOutputOf(`one\ntwo\n${frame.slice(0, 20)}`)).toBe("one two");
});

test("delivers no frames after a failure", () => {
  const frames: unknown[] = [];
  let failures = 0;
  const decoder = new ContentLengthDecoder(
    frameLimits(),
    (frame) => frames.push(frame),
    () => failures++,
  );
  decoder.push(Buffer.from("garbage\n"));
  decoder.push(makeFrame('{"a":1}'));
  decoder.end();
  expect({ frames, failures }).toEqual({ frames: [], failures: 1 });
});
