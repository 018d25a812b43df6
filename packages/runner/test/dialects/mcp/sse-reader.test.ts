import { expect, test } from "vitest";
import { createSseReader } from "../../../src/dialects/mcp/sse-reader.ts";

function createReader(limit = 16 * 1024 * 1024) {
  const received: string[] = [];
  const events = {
    data: (text: string) => void received.push(text),
    id: (value: string) => void received.push(`id ${value}`),
    retry: (ms: number) => void received.push(`retry ${ms}`),
  };
  return { received, sse: createSseReader(limit, events) };
}

test("reads the same events however the stream is split", () => {
  const stream = "\ufeffid: 7\r\ndata: one\rdata: two\n\nretry: 50\r\n\r\n: a remark\ndata: three\n\n";
  for (const chunk_size of [1, 2, 3, 5, 1_000]) {
    const { received, sse } = createReader();
    const bytes = Buffer.from(stream);
    for (let at = 0; at < bytes.length; at += chunk_size) sse.push(bytes.subarray(at, at + chunk_size));
    expect(received).toEqual(["id 7", "one\ntwo", "retry 50", "three"]);
  }
});

test("reports the id of an event only when the event is complete", () => {
  const { received, sse } = createReader();
  sse.push(Buffer.from('id: 8\ndata: {"cut'));
  expect(received).toEqual([]);
  sse.push(Buffer.from(' off"}\n\n'));
  expect(received).toEqual(["id 8", '{"cut off"}']);
});

test("reports the id of an event without text, and ignores named events and invalid delays", () => {
  const { received, sse } = createReader();
  sse.push(
    Buffer.from(
      "id: 9\ndata:\n\nevent: ping\ndata: x\n\nretry: soon\nunknown: 1\n\nevent: message\ndata: y\n\n",
    ),
  );
  expect(received).toEqual(["id 9", "y"]);
});

test("reads a long line in small chunks in linear time, up to a limit", () => {
  const { received, sse } = createReader();
  const chunk = Buffer.from("x".repeat(16));
  const started = performance.now();
  sse.push(Buffer.from("data: "));
  for (let n = 0; n < 60_000; n++) sse.push(chunk);
  sse.push(Buffer.from("\n\n"));
  expect(performance.now() - started).toBeLessThan(2_000);
  expect(received[0]).toHaveLength(960_000);
  const small = createReader(1_000).sse;
  expect(() => {
    for (let n = 0; n < 100; n++) small.push(chunk);
  }).toThrow(/exceeds the limit of 1000 characters/);
  expect(() => createReader(1_000).sse.push(Buffer.from(`data: ${"x".repeat(1_001)}\n\n`))).toThrow(
    /exceeds the limit of 1000 characters/,
  );
});
