import type { BackplaneError, JsonObject } from "@backplane/contract";
import { ContentLengthDecoder, type FrameLimits, frameLimits, NdjsonDecoder } from "../../src/index.ts";

export interface DecodeResult {
  frames: JsonObject[];
  error: BackplaneError | undefined;
}

const CODECS = { "content-length": ContentLengthDecoder, ndjson: NdjsonDecoder } as const;
export type Codec = keyof typeof CODECS;

/** Feeds the chunks and waits until all frames have been delivered, over any number of ticks. */
export function decodeAll(
  codec: Codec,
  chunks: Iterable<Uint8Array>,
  limits: Partial<FrameLimits> = {},
): Promise<DecodeResult> {
  return new Promise((resolve) => {
    const decoded: DecodeResult = { frames: [], error: undefined };
    const decoder = new CODECS[codec](
      frameLimits(limits),
      (frame: JsonObject) => decoded.frames.push(frame),
      (error) => {
        decoded.error = error;
      },
    );
    for (const chunk of chunks) decoder.push(chunk);
    decoder.end(() => resolve(decoded));
  });
}

export function makeFrame(body: string | Uint8Array, header = "Content-Length"): Buffer {
  const bytes = Buffer.from(body);
  return Buffer.concat([Buffer.from(`${header}: ${bytes.length}\r\n\r\n`), bytes]);
}

/** Splits at the given positions, which are taken modulo the length plus one and may be unsorted. */
export function splitAt(bytes: Buffer, positions: number[]): Buffer[] {
  const cuts = [
    0,
    ...positions.map((position) => position % (bytes.length + 1)).sort((a, b) => a - b),
    bytes.length,
  ];
  return cuts.slice(1).map((cut, index) => bytes.subarray(cuts[index], cut));
}

/** Pushes the chunk `times` times and waits while paused, as a transport does. Stops early if the decoder fails. */
export async function feedUnlessPaused(
  codec: Codec,
  chunk: Uint8Array,
  times: number,
): Promise<{ pushed: number; code: string | undefined }> {
  let paused = false;
  let code: string | undefined;
  const decoder = new CODECS[codec](
    frameLimits(),
    () => undefined,
    (error) => {
      code = error.code;
    },
    {
      pause: () => {
        paused = true;
      },
      resume: () => {
        paused = false;
      },
    },
  );
  let pushed = 0;
  while (code === undefined && pushed < times) {
    if (paused) await new Promise(setImmediate);
    else {
      decoder.push(chunk);
      pushed++;
    }
  }
  return { pushed, code };
}
