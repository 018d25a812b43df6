/**
 * Decodes `Content-Length: N\r\n\r\n` followed by N bytes of JSON. The header must state the length exactly once, in
 * digits. Anything else ends the stream, because a wrong guess would treat data as frames (wire.frame.bad-length).
 */
import { BackplaneError, type JsonObject } from "@backplane/contract";
import { ChunkQueue } from "./chunk-queue.ts";
import { FrameAssembly } from "./frame-assembly.ts";
import { type DecoderOptions, FrameDecoder, type Scanner } from "./frame-decoder.ts";
import type { FrameLimits } from "./limits.ts";
import { invalidFrame, previewBytes } from "./parse-frame.ts";

export class ContentLengthDecoder extends FrameDecoder<JsonObject> {
  constructor(
    limits: FrameLimits,
    onFrame: (frame: JsonObject) => void,
    onFailure: (error: BackplaneError) => void,
    options?: DecoderOptions,
  ) {
    super(new ContentLengthScanner(limits), limits, onFrame, onFailure, options);
  }
}

const CR = 13;
const LF = 10;
const ZERO = 48;
const NINE = 57;
/** The usual start of a frame; any other header takes the general path. */
const USUAL_START = Buffer.from("Content-Length: ");

class ContentLengthScanner implements Scanner {
  readonly #limits: FrameLimits;
  readonly #input = new ChunkQueue();
  readonly #header = new FrameAssembly();
  readonly #body = new FrameAssembly();
  /** Length of the body being received; -1 while a header is being received. */
  #length = -1;

  constructor(limits: FrameLimits) {
    this.#limits = limits;
  }

  feed(chunk: Buffer): void {
    this.#input.push(chunk);
  }

  next(): Buffer | null {
    for (;;) {
      if (!this.#input.advance()) return null;
      if (this.#length < 0) this.#readHeader();
      if (this.#length >= 0) {
        const body = this.#readBody();
        if (body !== null) return body;
      }
    }
  }

  last(): Buffer | null {
    if (this.#length < 0 && this.#header.length === 0) return null;
    throw new BackplaneError("frame_invalid", "The stream ended inside a frame.", {
      details: { truncated: true, stray_output: previewBytes(this.partial()) },
    });
  }

  partial(): Uint8Array {
    return this.#length < 0 ? this.#header.peek() : this.#body.peek();
  }

  #readBody(): Buffer | null {
    const chunk = this.#input.chunk;
    const end = this.#input.at + this.#length - this.#body.length;
    if (end > chunk.length) {
      this.#body.add(chunk.subarray(this.#input.at), this.#length);
      this.#input.at = chunk.length;
      return null;
    }
    const part = chunk.subarray(this.#input.at, end);
    this.#input.at = end;
    const length = this.#length;
    this.#length = -1;
    if (this.#body.length === 0) return part;
    this.#body.add(part, length);
    return this.#body.take();
  }

  /** Sets #length when the header is complete; otherwise adds the rest of the chunk to #header. */
  #readHeader(): void {
    if (this.#header.length === 0 && this.#readUsualHeader()) return;
    const chunk = this.#input.chunk;
    // The terminator may have started in an earlier chunk, so the joined bytes are searched.
    const previous_length = this.#header.length;
    const room = this.#limits.header_bytes - previous_length;
    this.#header.add(chunk.subarray(this.#input.at, this.#input.at + room), this.#limits.header_bytes);
    const header = this.#header.peek();
    const end = header.indexOf("\r\n\r\n", Math.max(0, previous_length - 3), "latin1");
    if (end < 0) {
      rejectStrayText(header);
      if (header.length === this.#limits.header_bytes) {
        throw invalidHeader(`a header must end within ${this.#limits.header_bytes} bytes`, header);
      }
      this.#input.at = chunk.length;
      return;
    }
    this.#input.at += end + 4 - previous_length;
    this.#acceptLength(parseHeader(header.subarray(0, end)), header);
    this.#header.take();
  }

  /** The fast path: `Content-Length: N` as the only header, complete in this chunk (benchmark wire.warm-call). */
  #readUsualHeader(): boolean {
    const chunk = this.#input.chunk;
    const at = this.#input.at;
    const first = at + USUAL_START.length;
    if (chunk.length < first + 5) return false;
    for (let j = 0; j < USUAL_START.length; j++) if (chunk[at + j] !== USUAL_START[j]) return false;
    let length = 0;
    let i = first;
    for (; i - first < 10; i++) {
      const digit = chunk[i]!;
      if (digit < ZERO || digit > NINE) break;
      length = length * 10 + digit - ZERO;
    }
    if (chunk[i] !== CR || chunk[i + 1] !== LF || chunk[i + 2] !== CR || chunk[i + 3] !== LF) return false;
    // The general path reports a missing or invalid length.
    if (length === 0 || length > this.#limits.frame_bytes) return false;
    this.#input.at = i + 4;
    this.#length = length;
    return true;
  }

  #acceptLength(length: number, header: Buffer): void {
    if (length > this.#limits.frame_bytes) {
      throw new BackplaneError(
        "frame_too_large",
        `A frame of ${length} bytes was announced; the limit is ${this.#limits.frame_bytes}.`,
        { details: { announced: length, limit: this.#limits.frame_bytes } },
      );
    }
    if (length === 0) throw invalidHeader("a frame must not be empty", header);
    this.#length = length;
  }
}

/** A line that does not end in \r\n is not a header: most likely the plugin printed to stdout. */
function rejectStrayText(header: Buffer): void {
  for (let at = header.indexOf(LF); at >= 0; at = header.indexOf(LF, at + 1)) {
    if (at > 0 && header[at - 1] === CR) continue;
    throw invalidHeader("a Content-Length header that ends with CRLF was expected", beforeFirstFrame(header));
  }
}

/** Leaves out a frame that arrived in the same chunk as the printed lines. */
function beforeFirstFrame(header: Buffer): Buffer {
  const frame = header.indexOf("\nContent-Length:", 0, "latin1");
  return frame < 0 ? header : header.subarray(0, frame);
}

function parseHeader(header: Buffer): number {
  rejectStrayText(header);
  let length: number | undefined;
  for (const line of header.toString("latin1").split("\r\n")) {
    const match = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*$/.exec(line);
    if (match === null) throw invalidHeader("a header line does not have the form `Name: value`", header);
    if (match[1]!.toLowerCase() !== "content-length") continue;
    if (length !== undefined) throw invalidHeader("Content-Length is given twice", header);
    if (!/^[0-9]+$/.test(match[2]!)) throw invalidHeader("Content-Length must consist of digits", header);
    length = Number(match[2]);
  }
  if (length === undefined) throw invalidHeader("Content-Length is missing", header);
  return length;
}

/** `part` distinguishes output that is not a frame from a frame with an invalid body. */
function invalidHeader(problem: string, bytes: Uint8Array): BackplaneError {
  const { code, message, details } = invalidFrame(problem, bytes);
  return new BackplaneError(code, message, { details: { ...details, part: "header" } });
}
