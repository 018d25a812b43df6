/**
 * Decodes one JSON value per line. `\r\n` is tolerated, blank lines are ignored. The last line before the end of the
 * stream may lack its newline, because a truncated JSON object is never valid JSON.
 */
import { BackplaneError, type Json, type JsonObject } from "@backplane/contract";
import { ChunkQueue } from "./chunk-queue.ts";
import { FrameAssembly } from "./frame-assembly.ts";
import { type DecoderOptions, FrameDecoder, type Scanner } from "./frame-decoder.ts";
import type { FrameLimits } from "./limits.ts";

export class NdjsonDecoder<Frame extends Json = JsonObject> extends FrameDecoder<Frame> {
  constructor(
    limits: FrameLimits,
    onFrame: (frame: Frame) => void,
    onFailure: (error: BackplaneError) => void,
    options?: DecoderOptions,
  ) {
    super(new LineScanner(limits), limits, onFrame, onFailure, options);
  }
}

const CR = 13;
const LF = 10;
const SPACE = 32;
const TAB = 9;

class LineScanner implements Scanner {
  readonly #limits: FrameLimits;
  readonly #input = new ChunkQueue();
  readonly #line = new FrameAssembly();

  constructor(limits: FrameLimits) {
    this.#limits = limits;
  }

  feed(chunk: Buffer): void {
    this.#input.push(chunk);
  }

  next(): Buffer | null {
    for (;;) {
      if (!this.#input.advance()) return null;
      const line = this.#readLine();
      if (line !== null && !isBlank(line)) return line;
    }
  }

  last(): Buffer | null {
    const line = this.#line.take();
    this.#checkLength(line.length);
    return isBlank(line) ? null : line;
  }

  partial(): Uint8Array {
    return this.#line.peek();
  }

  #readLine(): Buffer | null {
    const end = this.#input.chunk.indexOf(LF, this.#input.at);
    const part = this.#input.chunk.subarray(this.#input.at, end < 0 ? this.#input.chunk.length : end);
    // The limit applies to the JSON, so an unfinished line may have one more byte for a \r.
    this.#checkLength(this.#line.length + part.length - 1);
    this.#input.at = end < 0 ? this.#input.chunk.length : end + 1;
    if (end < 0 || this.#line.length > 0) this.#line.add(part, this.#limits.frame_bytes + 1);
    if (end < 0) return null;
    const line = stripCarriageReturn(this.#line.length > 0 ? this.#line.take() : part);
    this.#checkLength(line.length);
    return line;
  }

  #checkLength(length: number): void {
    if (length <= this.#limits.frame_bytes) return;
    throw new BackplaneError(
      "frame_too_large",
      `A line is longer than the limit of ${this.#limits.frame_bytes} bytes.`,
      { details: { limit: this.#limits.frame_bytes } },
    );
  }
}

function stripCarriageReturn(line: Buffer): Buffer {
  return line.length > 0 && line[line.length - 1] === CR ? line.subarray(0, -1) : line;
}

function isBlank(line: Buffer): boolean {
  for (const byte of line) {
    if (byte !== SPACE && byte !== TAB && byte !== CR) return false;
  }
  return true;
}
