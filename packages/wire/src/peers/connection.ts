/**
 * One transport with its decoder and its writer: frames in, frames out. Tells of the end exactly once,
 * after every frame that arrived before it: `onFailure` (the stream could not be understood) or `onClose`.
 */
import type { BackplaneError, Json } from "@backplane/contract";
import { ContentLengthDecoder } from "../codecs/content-length.ts";
import type { FrameDecoder } from "../codecs/frame-decoder.ts";
import { FrameWriter, type Framing } from "../codecs/frame-writer.ts";
import { type FrameLimits, frameLimits } from "../codecs/limits.ts";
import { NdjsonDecoder } from "../codecs/ndjson.ts";
import type { Transport } from "../transports/transport.ts";

export const MAX_QUEUED_BYTES = 8 * 1024 * 1024;

export interface ConnectionOptions<Frame extends Json> {
  transport: Transport;
  framing: Framing;
  limits: Partial<FrameLimits> | undefined;
  /** For a side that answers: stop reading while this much of our own output is not being read. */
  hold_above_bytes?: number;
  onFrame(frame: Frame): void;
  /** Set: any JSON value is a frame, and what is not JSON comes here. */
  onBadBody?: (error: BackplaneError) => void;
  onFailure(error: BackplaneError): void;
  onClose(error: Error | null): void;
}

export class Connection<Frame extends Json> {
  readonly #transport: Transport;
  readonly #decoder: FrameDecoder<Frame>;
  readonly #writer: FrameWriter;
  readonly #holdAbove: number;
  #told = false;
  #stopped = false;

  constructor(options: ConnectionOptions<Frame>) {
    const limits = frameLimits(options.limits);
    const { transport } = options;
    this.#transport = transport;
    this.#holdAbove = options.hold_above_bytes ?? Number.POSITIVE_INFINITY;
    this.#writer = new FrameWriter(transport, options.framing, limits.frame_bytes, () =>
      this.#decoder.release(),
    );
    const onFailure = (error: BackplaneError): void => this.#finish(() => options.onFailure(error));
    const decoderOptions = {
      pause: () => transport.pause(),
      resume: () => transport.resume(),
      ...(options.onBadBody === undefined ? {} : { onBadBody: options.onBadBody }),
    };
    const onFrame = (frame: Frame): void => options.onFrame(frame);
    this.#decoder =
      options.framing === "ndjson"
        ? new NdjsonDecoder<Frame>(limits, onFrame, onFailure, decoderOptions)
        : (new ContentLengthDecoder(
            limits,
            onFrame as never,
            onFailure,
            decoderOptions,
          ) as unknown as FrameDecoder<Frame>);
    transport.onClose((error) => {
      this.#decoder.end(() => this.#finish(() => options.onClose(error)));
    });
    transport.onData((chunk) => this.#decoder.push(chunk));
  }

  get queuedBytes(): number {
    return this.#writer.queuedBytes;
  }

  /** Throws `frame_too_large`, or what JSON.stringify throws. */
  send(frame: object): void {
    // The other side may have ended its writing and still read: only stop() ends ours.
    if (this.#stopped) return;
    this.#writer.send(frame);
    if (this.#writer.queuedBytes > this.#holdAbove) this.#decoder.hold();
  }

  strayOutput(): string {
    return this.#decoder.strayOutput();
  }

  /** For a process that is about to end: what was sent is with the transport when this returns. */
  flush(): void {
    this.#writer.flush();
  }

  /** Ends our writing side once all that was sent is out. */
  closeWriting(): void {
    this.#writer.flush();
    this.#transport.close();
  }

  /** Reads and tells nothing more. */
  stop(): void {
    this.#told = true;
    this.#stopped = true;
    this.#decoder.stop();
  }

  #finish(tell: () => void): void {
    if (this.#told) return;
    this.#told = true;
    tell();
  }
}
