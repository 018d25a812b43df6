/**
 * 1,000,000 frames per codec, in randomly mutated streams. For any input the decoder delivers checked objects or fails
 * once with `frame_invalid` or `frame_too_large`. It never throws, leaves a rejection unhandled, changes a prototype or
 * leaks memory.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { JsonObject } from "@backplane/contract";
import {
  ContentLengthDecoder,
  encodeContentLength,
  encodeNdjson,
  type FrameLimits,
  frameLimits,
  NdjsonDecoder,
} from "@backplane/wire";
import { afterAll, beforeAll, expect } from "vitest";
import { verifies } from "../../support/verifies.ts";

const FRAMES = 1_000_000;
const SEED = 20_260_416;
const LIMITS: FrameLimits = frameLimits({ frame_bytes: 8_192, header_bytes: 512, json_depth: 16 });
const CODES = new Set(["frame_invalid", "frame_too_large"]);

const CODECS = {
  "content-length": { Decoder: ContentLengthDecoder, encode: encodeContentLength },
  ndjson: { Decoder: NdjsonDecoder, encode: encodeNdjson },
};

const unhandled: unknown[] = [];
const recordRejection = (reason: unknown): void => {
  unhandled.push(reason);
};
const { stackTraceLimit } = Error;
beforeAll(() => {
  process.on("unhandledRejection", recordRejection);
  // Most streams end with an error, and collecting stack traces takes time.
  Error.stackTraceLimit = 0;
});
afterAll(() => {
  Error.stackTraceLimit = stackTraceLimit;
  process.off("unhandledRejection", recordRejection);
});

for (const [name, { Decoder, encode }] of Object.entries(CODECS)) {
  verifies(
    ["wire.frame.bad-json", "wire.frame.bad-length", "wire.frame.limits"],
    `${name}: neither crashes nor leaks with 1,000,000 frames in mutated streams`,
    async () => {
      const random = createRandom(SEED);
      const corpus = createSeedFrames().map((frame) => Buffer.from(encode(frame)));
      const collect = exposeGarbageCollector();
      const before = await measureSettledMemory(collect);
      const counts = { frames: 0, failures: 0, clean: 0, invalid: [] as unknown[] };
      let peak = 0;

      for (let done = 0; done < FRAMES; ) {
        const count = 1 + (random() % 8);
        const stream = mutate(
          Array.from({ length: count }, () => corpus[random() % corpus.length]!),
          random,
        );
        done += count;
        const failures: string[] = [];
        await new Promise<void>((resolve) => {
          const decoder = new Decoder(
            LIMITS,
            (frame: JsonObject) => {
              counts.frames++;
              if (Object.getPrototypeOf(frame) !== Object.prototype) counts.invalid.push(frame);
            },
            (error) => failures.push(error.code),
          );
          for (const chunk of splitIntoChunks(stream, random)) decoder.push(chunk);
          decoder.end(resolve);
        });
        if (failures.length > 1 || failures.some((code) => !CODES.has(code))) counts.invalid.push(failures);
        if (failures.length === 0) counts.clean++;
        else counts.failures++;
        if (done % 100_000 < count) {
          peak = Math.max(peak, (await measureSettledMemory(collect)) - before);
        }
      }

      expect(counts.invalid).toEqual([]);
      expect(unhandled).toEqual([]);
      expect(Object.keys(Object.prototype)).toEqual([]);
      // Both results must be frequent; otherwise the mutations prove nothing.
      expect(counts.failures).toBeGreaterThan(FRAMES / 50);
      expect(counts.clean).toBeGreaterThan(FRAMES / 50);
      expect(counts.frames).toBeGreaterThan(FRAMES / 10);
      expect(peak).toBeLessThan(32 * 1024 * 1024);
    },
    900_000,
  );
}

/** Another thread frees buffers some time after the collection, so the lowest of several readings is used. */
async function measureSettledMemory(collect: () => void): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let reading = 0; reading < 3; reading++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 10));
    least = Math.min(least, usedMemory());
  }
  return least;
}

function createSeedFrames(): object[] {
  let deep: object = { end: true };
  for (let i = 0; i < 14; i++) deep = { deep };
  return [
    {
      protocol: "vai.rpc.v1",
      type: "hello",
      role: "plugin",
      plugin: { package_id: "acme/devkit", version: "0.1.0" },
    },
    {
      protocol: "vai.rpc.v1",
      type: "event",
      request_id: "req_1",
      event: { type: "progress", message: "wörking 😀" },
    },
    {
      protocol: "vai.rpc.v1",
      type: "response",
      id: "req_1",
      ok: true,
      body: { status: "succeeded", result: [1, null] },
    },
    {
      protocol: "vai.rpc.v1",
      type: "response",
      id: "req_2",
      ok: false,
      error: { code: "x", message: '\u2028\\"' },
    },
    { jsonrpc: "2.0", id: 7, method: "invoke", params: { a: [true, false, -1.5e-7] } },
    { text: "x".repeat(2_000) },
    deep,
    {},
    { constructor: { name: "data" }, proto: "__proto__" },
  ];
}

const SPLICES = [
  "Content-Length: ",
  "Content-Length: 99999999999999999999\r\n\r\n",
  "Content-Length: -1\r\n\r\n",
  "\r\n\r\n",
  "\r\n",
  "\n",
  "{",
  "[[[[[[[[[[[[[[[[[[[[",
  '"__proto__":{"polluted":1},',
  '"constructor":{"prototype":{"polluted":1}},',
  '"\\ud800",',
  "\u0000",
  "é",
];

function mutate(frames: Buffer[], random: () => number): Buffer {
  let bytes: Buffer = Buffer.concat(frames);
  // One stream in four stays unchanged, because valid frames must still be decoded.
  for (let times = random() % 4; times > 0; times--) bytes = mutateOnce(bytes, random);
  return bytes;
}

function mutateOnce(bytes: Buffer, random: () => number): Buffer {
  if (bytes.length === 0) return Buffer.from([random() & 255]);
  const at = random() % bytes.length;
  const to = at + (random() % Math.min(64, bytes.length - at + 1));
  switch (random() % 6) {
    case 0: {
      const flipped = Buffer.from(bytes);
      flipped[at] = flipped[at]! ^ (1 << (random() & 7));
      return flipped;
    }
    case 1:
      return bytes.subarray(0, at);
    case 2:
      return Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)]);
    case 3:
      return Buffer.concat([
        bytes.subarray(0, at),
        Buffer.from(SPLICES[random() % SPLICES.length]!),
        bytes.subarray(at),
      ]);
    case 4:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(to)]);
    default: {
      const noise = Buffer.from(bytes);
      for (let i = at; i < to; i++) noise[i] = random() & 255;
      return noise;
    }
  }
}

function* splitIntoChunks(bytes: Buffer, random: () => number): Iterable<Buffer> {
  const longest = [bytes.length, 1 + (random() % 7), 1 + (random() % 300)][random() % 3] || 1;
  // Many one-byte pieces of a long stream take time and show nothing new.
  const step = Math.max(longest, Math.ceil(bytes.length / 200));
  for (let at = 0; at < bytes.length; ) {
    const next = at + 1 + (random() % step);
    yield bytes.subarray(at, next);
    at = next;
  }
}

/** A small seeded generator, so that every machine tests the same frames. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (t ^ (t >>> 14)) >>> 0;
  };
}

function usedMemory(): number {
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

function exposeGarbageCollector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
}
