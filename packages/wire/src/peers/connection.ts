/**
 * A transport with its decoder and writer. Reports the end once, after all frames that arrived before it, through
 * `onFailure` (the stream could not be decoded) or `onClose`. After `stop` nothing is reported.
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
  /**
   * For a peer that serves requests: pauses reading when more than this many bytes of output are queued, until the
   * transport has accepted them.
   */
  hold_above_bytes?: number;
  onFrame(frame: Frame): void;
  /** If set, any JSON value is a frame, and frames that `parseJson` rejects are reported here. */
  onBadBody?: (error: BackplaneError) => void;
  onFailure(error: BackplaneError): void;
  onClose(error: Error | null): void;
}

export class WireConnection<Frame extends Json> {
  readonly #transport: Transport;
  readonly #decoder: FrameDecoder<Frame>;
  readonly #writer: FrameWriter;
  readonly #hold_above: number;
  #ended = false;
  #stopped = false;

  constructor(options: ConnectionOptions<Frame>) {
    const limits = frameLimits(options.limits);
    const { transport } = options;
    this.#transport = transport;
    this.#hold_above = options.hold_above_bytes ?? Number.POSITIVE_INFINITY;
    this.#writer = new FrameWriter(transport, options.framing, limits.frame_bytes, () =>
      this.#decoder.release(),
    );
    const onFailure = (error: BackplaneError): void => this.#finish(() => options.onFailure(error));
    const decoder_options = {
      pause: () => transport.pause(),
      resume: () => transport.resume(),
      ...(options.onBadBody === undefined ? {} : { onBadBody: options.onBadBody }),
    };
    const onFrame = (frame: Frame): void => options.onFrame(frame);
    this.#decoder =
      options.framing === "ndjson"
        ? new NdjsonDecoder<Frame>(limits, onFrame, onFailure, decoder_options)
        : (new ContentLengthDecoder(
            limits,
            onFrame as never,
            onFailure,
            decoder_options,
          ) as unknown as FrameDecoder<Frame>);
    transport.onClose((error) => {
      this.#decoder.end(() => this.#finish(() => options.onClose(error)));
    });
    transport.onData((chunk) => this.#decoder.push(chunk));
  }

  get queuedBytes(): number {
    return this.#writer.queuedBytes;
  }

  /** Throws `frame_too_large`, or the error of JSON.stringify. */
  send(frame: object): void {
    // A peer that has closed its writing side may still read, so the end of the input does not end writing.
    if (this.#stopped) return;
    this.#writer.send(frame);
    if (this.#writer.queuedBytes > this.#hold_above) this.#decoder.hold();
  }

  strayOutput(): string {
    return this.#decoder.strayOutput();
  }

  /** For a process that is about to exit: passes all queued frames to the transport synchronously. */
  flush(): void {
    this.#writer.flush();
  }

  /** Closes the writing side after all queued frames have been written. */
  closeWriting(): void {
    this.#writer.flush();
    this.#transport.close();
  }

  /** Stops reading and ignores later calls of `send`; no callback is called afterwards. */
  stop(): void {
    this.#ended = true;
    this.#stopped = true;
    this.#decoder.stop();
  }

  #finish(report: () => void): void {
    if (this.#ended) return;
    this.#ended = true;
    report();
  }
}
