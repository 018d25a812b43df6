import { expect, test } from "vitest";
import { readSse, type SseMessage } from "../../src/transport/sse.ts";

async function* chunks(text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  for (let i = 0; i < bytes.length; i += size) yield bytes.subarray(i, i + size);
}

test("parses the same messages however the bytes are split", async () => {
  const text =
    ': connected\n\nid: 1\ndata: {"a":"ü€"}\n\n: alive\n\nid: 2\nevent: settled\ndata: one\ndata: two\n\n';
  const expected: SseMessage[] = [
    { id: "1", event: "message", data: '{"a":"ü€"}' },
    { id: "2", event: "settled", data: "one\ntwo" },
  ];
  for (let size = 1; size < 20; size++) {
    const messages: SseMessage[] = [];
    for await (const message of readSse(chunks(text, size))) messages.push(message);
    expect(messages, `chunks of ${size}`).toEqual(expected);
  }
});
