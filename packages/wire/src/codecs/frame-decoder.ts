/**
 * Drives a scanner over incoming chunks and hands out frames in order. Three states:
 *   idle    — every complete frame so far was handed out; a chunk is scanned as it comes
 *   yielded — the turn's time was used up (or a reader asked to hold): the source is paused, more later
 *   parsing — a large frame is with the worker thread: the source is paused, frames behind it wait
 * After a failure nothing more is handed out. At most the chunks already on their way are kept.
 */
import { Buffer } from "node:buffer";
import { performance } from "node:perf_hooks";
import { type BackplaneError, type Json, toBackplaneError, WIRE_LIMITS } from "@backplane/contract";
import type { FrameLimits } from "./limits.ts";
import { OffThreadParser } from "./off-thread-parser.ts";
import { invalidFrame, parseFrame, parseJson, printable } from "./parse-frame.ts";

/** Cuts the byte stream into bodies. Throws a BackplaneError when the stream cannot be understood. */
export interface Scanner {
  feed(chunk: Buffer): void;
  /** A complete body, or null when more bytes are needed. */
  next(): Buffer | null;
  /** What is left once the stream ended: a last body, then null. Throws if it is cut short. */
  last(): Buffer | null;
  /** Received and not yet part of a body. */
  partial(): Uint8Array;
}

export interface DecoderOptions {
  /** Called around a pause of the source; without it a slow reader's chunks are kept here. */
  pause?(): void;
  resume?(): void;
  /** Set: any JSON value is a frame, and a body that is not JSON is reported here instead of ending all. */
  onBadBody?: (error: BackplaneError) => void;
}

/** One turn of the event loop may spend this long on decoding and handling; far below the 50 ms of lag. */
const TURN_MS = 8;
/** Chunks this close to each other may have come in one turn of the event loop. */
const SAME_TURN_MS = 1;
const FRAMES_PER_CLOCK_READ = 16;

export class FrameDecoder<Frame extends Json> {
  readonly #scanner: Scanner;
  readonly #limits: FrameLimits;
  readonly #onFrame: (frame: Frame) => void;
  readonly #onFailure: (error: BackplaneError) => void;
  readonly #options: DecoderOptions;
  readonly #offThreadAbove: number = WIRE_LIMITS.frame_bytes;
  #parser: OffThreadParser | undefined;
  #state: "idle" | "yielded" | "parsing" | "failed" = "idle";
  #held = false;
  #draining = false;
  #paused = false;
  #ended: (() => void) | undefined;
  #turnStart = 0;
  #lastRead = 0;

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
    if (this.#state === "failed" || this.#ended !== undefined) return;
    this.#scanner.feed(
      chunk instanceof Buffer ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength),
    );
    if (this.#state !== "idle" || this.#draining) return;
    const now = performance.now();
    if (now - this.#lastRead > SAME_TURN_MS) this.#turnStart = now;
    this.#drain(now);
  }

  /** No more bytes will come. `done` is called once every complete frame was handed out. */
  end(done: () => void = () => undefined): void {
    if (this.#ended !== undefined) return;
    this.#ended = done;
    if (this.#state === "failed") done();
    else if (this.#state === "idle" && !this.#draining) this.#drain(performance.now());
  }

  /** Hands out no more frames until release(): what we answer is not being read. */
  hold(): void {
    this.#held = true;
  }

  release(): void {
    if (!this.#held) return;
    this.#held = false;
    if (this.#state === "yielded") this.#continueLater();
  }

  /** The other side is of no more interest: nothing is handed out or reported from here on. */
  stop(): void {
    if (this.#state === "failed") return;
    this.#state = "failed";
    this.#parser?.close();
    // A paused source would never tell that it closed.
    if (this.#paused) this.#options.resume?.();
  }

  /** The start of what arrived and is no frame yet, for messages. */
  strayOutput(): string {
    return printable(this.#scanner.partial());
  }

  #drain(now: number): void {
    this.#draining = true;
    try {
      if (this.#drainFrames(now)) this.#settleEnd();
    } catch (error) {
      this.#fail(toBackplaneError(error));
    } finally {
      this.#draining = false;
    }
    // Handing out a frame may have asked for a hold and taken it back before we stopped.
    if (this.#state === "yielded" && !this.#held) this.#continueLater();
  }

  /** True when all that arrived was handed out. */
  #drainFrames(startedAt: number): boolean {
    let now = startedAt;
    for (let count = 1; ; count++) {
      if (this.#held || now - this.#turnStart > TURN_MS) {
        this.#become("yielded");
        return false;
      }
      const body = this.#scanner.next() ?? (this.#ended === undefined ? null : this.#scanner.last());
      if (body === null) break;
      if (body.length > this.#offThreadAbove) {
        this.#parseOffThread(body);
        return false;
      }
      this.#handOut(body);
      if (this.#stopped()) return false;
      if (count % FRAMES_PER_CLOCK_READ === 0 || body.length > 16_384) now = performance.now();
    }
    this.#lastRead = performance.now();
    this.#become("idle");
    return true;
  }

  /** Read through a method: handing out a frame can change the state. */
  #stopped(): boolean {
    return this.#state === "failed";
  }

  #handOut(body: Buffer): void {
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
      this.#turnStart = now;
      this.#drain(now);
    });
  }

  #parseOffThread(body: Buffer): void {
    this.#become("parsing");
    this.#parser ??= new OffThreadParser();
    this.#parser.parse(body, this.#limits.json_depth).then(
      (outcome) => {
        if (this.#state !== "parsing") return;
        if ("problem" in outcome) this.#refuseLarge(outcome.problem, outcome.start);
        else if (this.#options.onBadBody === undefined && !isObject(outcome.value)) {
          this.#refuseLarge("a frame must be a JSON object", new Uint8Array());
        } else this.#deliver(() => this.#onFrame(outcome.value as Frame));
      },
      (error: unknown) => this.#fail(toBackplaneError(error)),
    );
  }

  #refuseLarge(problem: string, start: Uint8Array): void {
    const error = invalidFrame(problem, start);
    const onBadBody = this.#options.onBadBody;
    if (onBadBody === undefined) this.#fail(error);
    else this.#deliver(() => onBadBody(error));
  }

  #deliver(handOut: () => void): void {
    try {
      handOut();
    } catch (error) {
      this.#fail(toBackplaneError(error));
    }
    if (this.#state === "failed") return;
    this.#become("yielded");
    this.#continueLater();
  }

  #settleEnd(): void {
    if (this.#ended === undefined) return;
    this.#parser?.close();
    this.#ended();
  }

  #become(state: "idle" | "yielded" | "parsing"): void {
    if (this.#state === "failed") return;
    this.#state = state;
    const pause = state !== "idle";
    if (pause === this.#paused) return;
    this.#paused = pause;
    if (pause) this.#options.pause?.();
    else this.#options.resume?.();
  }

  #fail(error: BackplaneError): void {
    if (this.#state === "failed") return;
    this.stop();
    this.#onFailure(error);
    this.#ended?.();
  }
}

function isObject(value: Json): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
