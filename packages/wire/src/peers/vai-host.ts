/**
 * The host side of `vai.rpc.v1`. States: new → greeting → ready → closed; `closed` is final and keeps the error for
 * all later requests. Invariants: no request is sent before a valid hello; a request settles exactly once; a frame
 * whose id matches no pending request is only counted. A response without a usable id, while requests are pending,
 * closes the connection, because it may belong to any of them.
 */
import {
  BackplaneError,
  type ExportOp,
  IdTable,
  type JsonObject,
  OPS,
  toBackplaneError,
  VAI_TIMEOUTS,
  type VaiPluginHello,
  type VaiResponse,
} from "@backplane/contract";
import type { FrameLimits } from "../codecs/limits.ts";
import type { Transport } from "../transports/transport.ts";
import { checkVaiEvent, checkVaiResponse, isNonEmpty, VAI_PROTOCOL } from "./check-vai.ts";
import { MAX_QUEUED_BYTES, WireConnection } from "./connection.ts";
import { type StartTimer, startTimeout } from "./start-timer.ts";
import { UnmatchedFrames, type VaiViolation } from "./unmatched-frames.ts";
import { asHandshakeFailure, closedOutputError, findHelloError, missingHelloError } from "./vai-handshake.ts";

export interface VaiHostOptions {
  transport: Transport;
  /** The identity in the installed manifest; the plugin's hello must match it. */
  identity: { package_id: string; version: string };
  host: { name: string; version: string };
  hello_ms?: number;
  /** Timer for `hello_ms`; defaults to setTimeout. */
  after?: StartTimer;
  limits?: Partial<FrameLimits>;
  /** Above this limit request() rejects with `backpressure`. */
  max_queued_bytes?: number;
  onViolation(violation: VaiViolation): void;
  /**
   * Called at most once, when the connection ends: failed hello, invalid frame, closed stream, second hello, response
   * without an id. hello() and all pending requests have been rejected with the same error by then. The caller should
   * kill the process.
   */
  onFailure(error: BackplaneError): void;
}

type PluginEvent = JsonObject & { type: string };

/** Receives the outcome of one request: events in order, then exactly one of `answered` and `failed`. */
export interface VaiReplySink {
  event(event: PluginEvent): void;
  answered(response: VaiResponse): void;
  failed(error: BackplaneError): void;
}

interface PendingRequest {
  op: ExportOp;
  sink: VaiReplySink;
  cancel_sent: boolean;
}

interface PendingHello {
  resolve: (hello: VaiPluginHello) => void;
  reject: (error: BackplaneError) => void;
  stopTimer: () => void;
}

export class VaiHost {
  readonly #options: VaiHostOptions;
  readonly #connection: WireConnection<JsonObject>;
  readonly #max_queued: number;
  readonly #pending = new IdTable<PendingRequest>();
  readonly #unmatched: UnmatchedFrames;
  #state: "new" | "greeting" | "ready" | "closed" = "new";
  #greeting: PendingHello | undefined;
  #early_frame: JsonObject | undefined;
  #shutting_down = false;
  #failure: BackplaneError | undefined;

  constructor(options: VaiHostOptions) {
    this.#options = options;
    this.#unmatched = new UnmatchedFrames((violation) => options.onViolation(violation));
    this.#max_queued = options.max_queued_bytes ?? MAX_QUEUED_BYTES;
    this.#connection = new WireConnection<JsonObject>({
      transport: options.transport,
      framing: "content-length",
      limits: options.limits,
      onFrame: (frame) => this.#receive(frame),
      onFailure: (error) => this.#fail(this.#decodeError(error)),
      onClose: (error) => this.#fail(this.#closedError(error)),
    });
  }

  get inFlight(): number {
    return this.#pending.size;
  }

  hello(): Promise<VaiPluginHello> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    if (this.#state !== "new") {
      return Promise.reject(new BackplaneError("internal", "hello() was called twice."));
    }
    this.#state = "greeting";
    const wait_ms = this.#options.hello_ms ?? VAI_TIMEOUTS.hello_ms;
    return new Promise((resolve, reject) => {
      const stopTimer = (this.#options.after ?? startTimeout)(wait_ms, () =>
        this.#fail(missingHelloError(wait_ms, this.#connection.strayOutput())),
      );
      this.#greeting = { resolve, reject, stopTimer };
      this.#connection.send({
        protocol: VAI_PROTOCOL,
        type: "hello",
        role: "host",
        host: this.#options.host,
      });
      if (this.#early_frame !== undefined) this.#receiveHello(this.#early_frame);
    });
  }

  /**
   * Calls onEvent for each event in order, before the promise settles. Resolves to a response that satisfies
   * vai.response, with ok true or false. Rejects with the reason why the request was not sent, with
   * `malformed_response`, with the error that abandoned the request or ended the connection, or with an error of
   * onEvent.
   */
  request(
    id: string,
    op: ExportOp,
    body: Record<string, unknown>,
    onEvent: (event: PluginEvent) => void,
  ): Promise<VaiResponse> {
    return new Promise((resolve, reject) => {
      this.send(id, op, body, { event: onEvent, answered: resolve, failed: reject });
    });
  }

  /**
   * Like `request`, without a promise per call (benchmark wire.warm-call). Returns true if the request is in flight.
   */
  send(id: string, op: ExportOp, body: Record<string, unknown>, sink: VaiReplySink): boolean {
    const refusal = this.#refusalReason(id);
    if (refusal !== undefined) {
      sink.failed(refusal);
      return false;
    }
    try {
      this.#connection.send({ protocol: VAI_PROTOCOL, type: "request", id, op, body });
    } catch (error) {
      sink.failed(toBackplaneError(error));
      return false;
    }
    this.#pending.set(id, { op, sink, cancel_sent: false });
    return true;
  }

  /** Sends a cancel frame. The request stays pending, so that a reply within the grace period is accepted. */
  cancel(id: string, reason: string): void {
    const pending = this.#pending.get(id);
    if (pending === undefined || pending.cancel_sent) return;
    pending.cancel_sent = true;
    this.#connection.send({ protocol: VAI_PROTOCOL, type: "cancel", request_id: id, reason });
  }

  /** Rejects the request with `error`; a later reply is counted as late_reply. */
  abandon(id: string, error: BackplaneError): void {
    this.#removePending(id, "abandoned")?.sink.failed(error);
  }

  /** Sends a shutdown frame and closes the plugin's input; replies to requests in flight are still accepted. */
  shutdown(): void {
    if (this.#state === "closed" || this.#shutting_down) return;
    this.#shutting_down = true;
    this.#connection.send({ protocol: VAI_PROTOCOL, type: "shutdown" });
    this.#connection.closeWriting();
  }

  #refusalReason(id: string): BackplaneError | undefined {
    if (this.#failure !== undefined) return this.#failure;
    if (this.#state !== "ready") {
      return new BackplaneError("handshake_failed", "A request cannot be sent before a valid hello.");
    }
    if (this.#shutting_down) return new BackplaneError("crashed", "The plugin is being shut down.");
    if (this.#pending.has(id))
      return new BackplaneError("internal", `The request id ${id} is already in use.`);
    if (this.#connection.queuedBytes <= this.#max_queued) return undefined;
    return new BackplaneError("backpressure", undefined, {
      details: { queued_bytes: this.#connection.queuedBytes, limit: this.#max_queued },
    });
  }

  #receive(frame: JsonObject): void {
    if (this.#state === "closed") return;
    if (this.#state !== "ready") this.#receiveHello(frame);
    else if (frame.type === "response") this.#receiveResponse(frame);
    else if (frame.type === "event") this.#receiveEvent(frame);
    else if (frame.type === "hello") {
      this.#fail(new BackplaneError("handshake_failed", "The plugin sent a second hello."));
    } else this.#options.onViolation({ kind: "unexpected_frame" });
  }

  #receiveHello(frame: JsonObject): void {
    const greeting = this.#greeting;
    if (greeting === undefined) {
      // A plugin may send its hello as soon as it runs; the frame is kept until the host's hello is sent.
      if (this.#early_frame === undefined) this.#early_frame = frame;
      else
        this.#fail(
          new BackplaneError("handshake_failed", "The plugin sent a frame before the host's hello."),
        );
      return;
    }
    const problem = findHelloError(frame, this.#options.identity);
    if (problem !== undefined) this.#fail(problem);
    else {
      greeting.stopTimer();
      this.#greeting = undefined;
      this.#state = "ready";
      greeting.resolve(frame as unknown as VaiPluginHello);
    }
  }

  #receiveResponse(frame: JsonObject): void {
    if (!isNonEmpty(frame.id) && this.#pending.size > 0) {
      // The reply belongs to one of the requests in flight, but there is no way to tell which.
      const problem = frame.id === undefined ? "it has no id" : "its id is not a string";
      this.#fail(malformed(problem));
      return;
    }
    const pending = isNonEmpty(frame.id) ? this.#removePending(frame.id, "replied") : undefined;
    if (pending === undefined) {
      this.#unmatched.report(frame.id, "second_reply");
      return;
    }
    let problem = checkVaiResponse(frame);
    const response = frame as unknown as VaiResponse;
    if (problem === undefined && response.ok && response.body.status === "ack" && pending.op !== OPS.hook) {
      problem = "only a hook may return ack";
    }
    if (problem === undefined) pending.sink.answered(response);
    else pending.sink.failed(malformed(problem));
  }

  #receiveEvent(frame: JsonObject): void {
    const id = frame.request_id;
    const pending = isNonEmpty(id) ? this.#pending.get(id) : undefined;
    if (pending === undefined) this.#unmatched.report(id, "event_after_reply");
    else if (checkVaiEvent(frame) !== undefined) {
      this.#options.onViolation({ kind: "unexpected_frame", request_id: id as string });
    } else {
      try {
        pending.sink.event(frame.event as PluginEvent);
      } catch (error) {
        this.#removePending(id as string, "abandoned")?.sink.failed(toBackplaneError(error));
      }
    }
  }

  #removePending(id: string, ending: "replied" | "abandoned"): PendingRequest | undefined {
    const pending = this.#pending.delete(id);
    if (pending !== undefined) this.#unmatched.recordEnd(id, ending);
    return pending;
  }

  #decodeError(error: BackplaneError): BackplaneError {
    // A process that crashes while writing leaves half a frame; report the crash, not an invalid frame.
    if (error.details?.truncated === true) return this.#closedError(error);
    return this.#state === "ready" ? error : asHandshakeFailure(error);
  }

  #closedError(cause: Error | null): BackplaneError {
    return closedOutputError(cause, this.#connection.strayOutput());
  }

  #fail(error: BackplaneError): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#failure = error;
    this.#connection.stop();
    if (this.#greeting !== undefined) {
      this.#greeting.stopTimer();
      this.#greeting.reject(error);
      this.#greeting = undefined;
    }
    const pending = this.#pending.values();
    this.#pending.clear();
    for (const { sink } of pending) sink.failed(error);
    this.#options.onFailure(error);
  }
}

function malformed(problem: string): BackplaneError {
  return new BackplaneError("malformed_response", `The plugin's response violates the protocol: ${problem}.`);
}
