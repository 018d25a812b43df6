/**
 * Drives a scanner over incoming chunks and delivers frames in order. It stops when it fails or on request. Until then
 * it has three states:
 *   idle    — every complete frame so far has been delivered; a chunk is scanned when it arrives
 *   yielded — the time slice is used up (or the reader called hold): the source is paused, decoding continues later
 *   parsing — the worker thread parses a large frame: the source is paused, frames after it wait
 * After a failure no more frames are delivered. While paused, only chunks already in transit are kept.
 */
import { Buffer } from "node:buffer";
import { performance } from "node:perf_hooks";
import { type BackplaneError, isObject, type Json, toBackplaneError, WIRE_LIMITS } from "@backplane/contract";
import type { FrameLimits } from "./limits.ts";
import { OffThreadParser } from "./off-thread-parser.ts";
import { invalidFrame, parseFrame, parseJson, previewBytes } from "./parse-frame.ts";

/** Splits the byte stream into bodies. Throws a BackplaneError if the stream cannot be decoded. */
export interface Scanner {
  feed(chunk: Buffer): void;
  /** Returns a complete body, or null if more bytes are needed. */
  next(): Buffer | null;
  /**
   * Called after the end of the stream: returns a last body, then null. Throws if the remaining bytes cannot be one.
   */
  last(): Buffer | null;
  /** Bytes received that are not part of a body yet. */
  partial(): Uint8Array;
}

export interface DecoderOptions {
  /** Called to pause and resume the source. If absent, chunks for a slow reader are kept in memory. */
  pause?(): void;
  resume?(): void;
  /** If set, any JSON value is a frame. A body that `parseJson` rejects is reported here, and the stream continues. */
  onBadBody?: (error: BackplaneError) => void;
}

/** Time slice per turn of the event loop for decoding and handling, far below the allowed event loop lag of 50 ms. */
const TURN_MS = 8;
/** Chunks within this interval may have arrived in the same turn of the event loop. */
const SAME_TURN_MS = 1;
const FRAMES_PER_CLOCK_READ = 16;

export class FrameDecoder<Frame extends Json> {
  readonly #scanner: Scanner;
  readonly #limits: FrameLimits;
  readonly #onFrame: (frame: Frame) => void;
  readonly #onFailure: (error: BackplaneError) => void;
  readonly #options: DecoderOptions;
  readonly #off_thread_above: number = WIRE_LIMITS.frame_bytes;
  #parser: OffThreadParser | undefined;
  #state: "idle" | "yielded" | "parsing" | "stopped" = "idle";
  #held = false;
  #draining = false;
  #paused = false;
  #onEnded: (() => void) | undefined;
  #turn_start = 0;
  #last_drain = 0;

  constructor(
    scanner: Scanner,
    limits: FrameLimits,
    onFrame: (frame: Frame) => void,
    onFailure: (error: BackplaneError) => void,
    options: DecoderOptions = {},
  ) {
    this.#scanner = scanner;
    this.#limits = limits;
    this.#onFrame = onFrame;
    this.#onFailure = onFailure;
    this.#options = options;
  }

  push(chunk: Uint8Array): void {
    if (this.#state === "stopped" || this.#onEnded !== undefined) return;
    this.#scanner.feed(
      chunk instanceof Buffer ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength),
    );
    if (this.#state !== "idle" || this.#draining) return;
    const now = performance.now();
    if (now - this.#last_drain > SAME_TURN_MS) this.#turn_start = now;
    this.#drain(now);
  }

  /** Marks the end of the stream. `done` is called after the last complete frame has been delivered or on a failure. */
  end(done: () => void = () => undefined): void {
    if (this.#onEnded !== undefined) return;
    this.#onEnded = done;
    if (this.#state === "stopped") done();
    else if (this.#state === "idle" && !this.#draining) this.#drain(performance.now());
  }

  /**
   * Scans no more frames until release(), because the peer is not reading the replies. A large frame that is already
   * being parsed is still delivered.
   */
  hold(): void {
    this.#held = true;
  }

  release(): void {
    if (!this.#held) return;
    this.#held = false;
    if (this.#state === "yielded") this.#continueLater();
  }

  /** Stops decoding: no more frames are delivered and no failure is reported. */
  stop(): void {
    if (this.#state === "stopped") return;
    this.#state = "stopped";
    this.#parser?.close();
    // A paused source would never report its end.
    if (this.#paused) this.#options.resume?.();
  }

  /** The start of the bytes that are not a frame yet, for messages. */
  strayOutput(): string {
    return previewBytes(this.#scanner.partial());
  }

  #drain(now: number): void {
    this.#draining = true;
    try {
      if (this.#drainFrames(now)) this.#reportEnd();
    } catch (error) {
      this.#fail(toBackplaneError(error));
    } finally {
      this.#draining = false;
    }
    // The handler of a frame may have called hold() and release() before this point.
    if (this.#state === "yielded" && !this.#held) this.#continueLater();
  }

  /** Returns true if all received frames have been delivered. */
  #drainFrames(started_at: number): boolean {
    let now = started_at;
    for (let count = 1; ; count++) {
      if (this.#held || now - this.#turn_start > TURN_MS) {
        this.#setState("yielded");
        return false;
      }
      const body = this.#scanner.next() ?? (this.#onEnded === undefined ? null : this.#scanner.last());
      if (body === null) break;
      if (body.length > this.#off_thread_above) {
        this.#parseOffThread(body);
        return false;
      }
      this.#parseAndDeliver(body);
      if (this.#isStopped()) return false;
      if (count % FRAMES_PER_CLOCK_READ === 0 || body.length > 16_384) now = performance.now();
    }
    this.#last_drain = performance.now();
    this.#setState("idle");
    return true;
  }

  /** A method, because delivering a frame can change the state, and TypeScript would narrow the type of the field. */
  #isStopped(): boolean {
    return this.#state === "stopped";
  }

  #parseAndDeliver(body: Buffer): void {
    const onBadBody = this.#options.onBadBody;
    let frame: Json;
    if (onBadBody === undefined) frame = parseFrame(body, this.#limits.json_depth);
    else {
      try {
        frame = parseJson(body, this.#limits.json_depth);
      } catch (error) {
        onBadBody(toBackplaneError(error));
        return;
      }
    }
    this.#onFrame(frame as Frame);
  }

  #continueLater(): void {
    setImmediate(() => {
      if (this.#state !== "yielded" || this.#held) return;
      const now = performance.now();
      this.#turn_start = now;
      this.#drain(now);
    });
  }

  #parseOffThread(body: Buffer): void {
    this.#setState("parsing");
    this.#parser ??= new OffThreadParser();
    this.#parser.parse(body, this.#limits.json_depth).then(
      (outcome) => {
        if (this.#state !== "parsing") return;
        if ("problem" in outcome) this.#rejectLargeFrame(outcome.problem, outcome.start);
        else if (this.#options.onBadBody === undefined && !isObject(outcome.value)) {
          this.#rejectLargeFrame("a frame must be a JSON object", new Uint8Array());
        } else this.#deliver(() => this.#onFrame(outcome.value as Frame));
      },
      (error: unknown) => this.#fail(toBackplaneError(error)),
    );
  }

  #rejectLargeFrame(problem: string, start: Uint8Array): void {
    const error = invalidFrame(problem, start);
    const onBadBody = this.#options.onBadBody;
    if (onBadBody === undefined) this.#fail(error);
    else this.#deliver(() => onBadBody(error));
  }

  #deliver(callback: () => void): void {
    try {
      callback();
    } catch (error) {
      this.#fail(toBackplaneError(error));
    }
    if (this.#state === "stopped") return;
    this.#setState("yielded");
    this.#continueLater();
  }

  #reportEnd(): void {
    if (this.#onEnded === undefined) return;
    this.#parser?.close();
    this.#onEnded();
  }

  #setState(state: "idle" | "yielded" | "parsing"): void {
    if (this.#state === "stopped") return;
    this.#state = state;
    const pause = state !== "idle";
    if (pause === this.#paused) return;
    this.#paused = pause;
    if (pause) this.#options.pause?.();
    else this.#options.resume?.();
  }

  #fail(error: BackplaneError): void {
    if (this.#state === "stopped") return;
    this.stop();
    this.#onFailure(error);
    this.#onEnded?.();
  }
}
