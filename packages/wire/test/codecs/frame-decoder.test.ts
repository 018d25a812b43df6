import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { frameLimits, NdjsonDecoder } from "../../src/index.ts";
import { measureLoopLag } from "../support/loop-lag.ts";
import { decodeAll } from "./decode-all.ts";

verifies(
  "wire.backpressure",
  "delivers 300,000 small frames from one chunk in order without blocking the event loop",
  async () => {
    const count = 300_000;
    const bytes = Buffer.from(Array.from({ length: count }, (_, n) => `{"n":${n}}\n`).join(""));
    let frames: unknown[] = [];
    const lag = await measureLoopLag(async () => {
      frames = (await decodeAll("ndjson", [bytes])).frames;
    });
    expect(frames).toHaveLength(count);
    expect(frames.every((frame, n) => (frame as { n: number }).n === n)).toBe(true);
    expect(lag).toBeLessThan(50);
  },
);

verifies("wire.backpressure", "pauses the source for a slow reader and loses no frame", async () => {
  const calls: string[] = [];
  const frames: unknown[] = [];
  const decoder: NdjsonDecoder = new NdjsonDecoder(
    frameLimits(),
    (frame) => {
      frames.push(frame.n);
      if (frame.n === 1) decoder.hold();
    },
    (error) => calls.push(error.code),
    { pause: () => calls.push("pause"), resume: () => calls.push("resume") },
  );
  decoder.push(Buffer.from('{"n":0}\n{"n":1}\n{"n":2}\n'));
  decoder.push(Buffer.from('{"n":3}\n'));
  decoder.end(() => calls.push("end"));
  await new Promise(setImmediate);
  expect({ frames, calls }).toEqual({ frames: [0, 1], calls: ["pause"] });
  decoder.release();
  await new Promise(setImmediate);
  expect({ frames, calls }).toEqual({ frames: [0, 1, 2, 3], calls: ["pause", "resume", "end"] });
});

test("fails the stream once if its reader throws", () => {
  const codes: string[] = [];
  const decoder = new NdjsonDecoder(
    frameLimits(),
    () => {
      throw new Error("reader broke");
    },
    (error) => codes.push(error.code),
  );
  decoder.push(Buffer.from("{}\n{}\n"));
  expect(codes).toEqual(["internal"]);
});
