import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { FrameWriter } from "../../src/codecs/frame-writer.ts";
import type { Transport } from "../../src/index.ts";

/** A transport that records each write and reports whether it is full. */
function createRecordingTransport(full: () => boolean): {
  transport: Transport;
  writes: string[];
  drain: () => void;
} {
  const writes: string[] = [];
  let onDrain: () => void = () => undefined;
  const transport: Transport = {
    write: (data) => {
      writes.push(String(data));
      return !full();
    },
    queuedBytes: 0,
    onData: () => undefined,
    onDrain: (listener) => {
      onDrain = listener;
    },
    onClose: () => undefined,
    pause: () => undefined,
    resume: () => undefined,
    close: () => undefined,
  };
  return { transport, writes, drain: () => onDrain() };
}

const nextTurn = () => new Promise(setImmediate);

test("writes the frames of one turn together and in order", async () => {
  const { transport, writes } = createRecordingTransport(() => false);
  const writer = new FrameWriter(transport, "ndjson", 1_000, () => undefined);
  for (let n = 0; n < 5; n++) writer.send({ n });
  expect(writes).toEqual([]);
  await nextTurn();
  expect(writes).toEqual(['{"n":0}\n{"n":1}\n{"n":2}\n{"n":3}\n{"n":4}\n']);
});

verifies("wire.backpressure", "queues and counts frames while the transport is full", async () => {
  let full = true;
  let drained = 0;
  const { transport, writes, drain } = createRecordingTransport(() => full);
  const writer = new FrameWriter(transport, "content-length", 100_000, () => drained++);
  for (let n = 0; n < 10; n++) writer.send({ n, pad: "x".repeat(20_000) });
  await nextTurn();
  expect(writes).toHaveLength(1);
  expect(writer.queuedBytes).toBeGreaterThan(180_000);
  drain();
  expect({ writes: writes.length, drained }).toEqual({ writes: 2, drained: 0 });
  full = false;
  drain();
  expect({ queued: writer.queuedBytes, drained }).toEqual({ queued: 0, drained: 1 });
  const order = [...writes.join("").matchAll(/"n":(\d)/g)].map((match) => Number(match[1]));
  expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test("flush writes everything immediately", () => {
  const { transport, writes } = createRecordingTransport(() => true);
  const writer = new FrameWriter(transport, "ndjson", 100_000, () => undefined);
  for (let n = 0; n < 4; n++) writer.send({ n, pad: "x".repeat(20_000) });
  writer.send({ n: 4 });
  writer.flush();
  expect(writes.join("").split("\n")).toHaveLength(6);
  expect(writer.queuedBytes).toBe(0);
});
