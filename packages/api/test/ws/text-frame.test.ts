import type { Writable } from "node:stream";
import { expect, test } from "vitest";
import * as ws from "ws";
import { textFrame } from "../../src/ws/text-frame.ts";

/** The frame reader of `ws`, which its types do not export. */
const { Receiver } = ws as unknown as { Receiver: new () => Writable };

test("encodes text frames with short, 16-bit and 64-bit lengths", async () => {
  for (const length of [0, 1, 125, 126, 127, 65_535, 65_536, 200_000]) {
    for (const letter of ["a", "ü", "𝄞"]) {
      const text = letter.repeat(length);
      expect(await read(textFrame(text))).toBe(text);
    }
  }
});

function read(frame: Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const receiver = new Receiver();
    receiver.on("message", (data: Buffer, binary: boolean) =>
      binary ? reject(new Error("a binary frame")) : resolve(data.toString()),
    );
    receiver.on("error", reject);
    receiver.write(frame);
  });
}
