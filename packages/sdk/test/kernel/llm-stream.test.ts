import { expect, test } from "vitest";
import { vendorStream } from "../../src/kernel/index.ts";

/** A signal that counts its listeners. */
function createStopSignal(aborted = false) {
  const controller = new AbortController();
  if (aborted) controller.abort();
  let listeners = 0;
  const { signal } = controller;
  return {
    stop: () => controller.abort(),
    listeners: () => listeners,
    signal: {
      get aborted() {
        return signal.aborted;
      },
      addEventListener: (kind: "abort", listener: () => void) => {
        listeners++;
        signal.addEventListener(kind, listener);
      },
      removeEventListener: (kind: "abort", listener: () => void) => {
        listeners--;
        signal.removeEventListener(kind, listener);
      },
    },
  };
}

async function* numbers(end: () => void = () => {}): AsyncGenerator<number> {
  yield 1;
  yield 2;
  end();
}

async function read(stream: AsyncIterable<number>): Promise<number[]> {
  const parts: number[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

test("reports half a line of JSON as a broken stream, but rethrows an error while opening unchanged", async () => {
  const parseHalfLine = () => void JSON.parse('{"ty');
  const stop = createStopSignal();
  const opened = read(vendorStream(stop.signal, async () => numbers(parseHalfLine)));
  await expect(opened).rejects.toMatchObject({ failure: { kind: "connection" } });
  const refused = read(
    vendorStream(stop.signal, async () => {
      parseHalfLine();
      return numbers();
    }),
  );
  await expect(refused).rejects.toBeInstanceOf(SyntaxError);
  expect(stop.listeners()).toBe(0);
});

test("forwards a stop while the vendor's stream opens and removes its listeners afterwards", async () => {
  const stop = createStopSignal();
  const opening = read(
    vendorStream(
      stop.signal,
      (signal) =>
        new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(new Error("aborted")));
        }),
    ),
  );
  expect(stop.listeners()).toBe(1);
  stop.stop();
  await expect(opening).rejects.toThrow("aborted");
  expect(stop.listeners()).toBe(0);
  const aborted = createStopSignal(true);
  await read(
    vendorStream(aborted.signal, async (signal) => {
      expect(signal.aborted).toBe(true);
      return numbers();
    }),
  );
});

test("removes its signal listener when the reader stops early", async () => {
  const stop = createStopSignal();
  for await (const part of vendorStream(stop.signal, async () => numbers())) {
    expect([part, stop.listeners()]).toEqual([1, 1]);
    break;
  }
  expect(stop.listeners()).toBe(0);
});
