/**
 * The plugin side of `vai.rpc.v1`, for the SDK and for tests. It answers the host's hello, runs requests concurrently,
 * and answers each exactly once. The end of the input means that the host is gone and is handled like a shutdown.
 */
import {
  BackplaneError,
  codeOf,
  type ExportOp,
  IdTable,
  type JsonObject,
  type TerminalStatus,
  type VaiRequest,
} from "@backplane/contract";
import type { FrameLimits } from "../codecs/limits.ts";
import type { Transport } from "../transports/transport.ts";
import { checkHostHello, checkVaiRequest, isNonEmpty, VAI_PROTOCOL } from "./check-vai.ts";
import { MAX_QUEUED_BYTES, WireConnection } from "./connection.ts";

type PluginEvent = JsonObject & { type: string };

export interface VaiCall {
  id: string;
  op: ExportOp;
  body: VaiRequest["body"];
  /** Aborted on cancel, with the reason from the cancel frame, on shutdown, and when the connection ends. */
  signal: AbortSignal;
  /** Has no effect after the reply. */
  emit(event: PluginEvent): void;
}

export interface VaiReply {
  status: TerminalStatus | "ack";
  result?: unknown;
}

export interface VaiPluginOptions {
  transport: Transport;
  identity: { package_id: string; version: string };
  limits?: Partial<FrameLimits>;
  /** A thrown error becomes status `failed` with its message, or `cancelled` if the call was aborted. */
  handle(call: VaiCall): VaiReply | Promise<VaiReply>;
  /** Called at most once, when the host requests a shutdown or closes the input. */
  onShutdown(): void;
  /** Called at most once, when the host violates the protocol or the stream fails; nothing is answered afterwards. */
  onFailure(error: Error): void;
}

export class VaiPlugin {
  readonly #options: VaiPluginOptions;
  /** Unanswered calls. A call that is answered synchronously is never added. */
  readonly #calls = new IdTable<RunningCall>();
  #connection: WireConnection<JsonObject> | undefined;
  #greeted = false;
  #closed = false;
  readonly #emit = (call: RunningCall, event: PluginEvent): void => {
    if (call.answered) return;
    this.#send({ protocol: VAI_PROTOCOL, type: "event", request_id: call.id, event });
  };

  constructor(options: VaiPluginOptions) {
    this.#options = options;
  }

  get inFlight(): number {
    return this.#calls.size;
  }

  /** Waits for the host's hello and answers it. */
  start(): void {
    this.#connection ??= new WireConnection<JsonObject>({
      transport: this.#options.transport,
      framing: "content-length",
      limits: this.#options.limits,
      hold_above_bytes: MAX_QUEUED_BYTES,
      onFrame: (frame) => this.#receive(frame),
      onFailure: (error) => this.#fail(error),
      onClose: (error) => (error === null ? this.#shutDown() : this.#fail(error)),
    });
  }

  #receive(frame: JsonObject): void {
    if (!this.#greeted) this.#greet(frame);
    else if (frame.type === "request") this.#run(frame);
    else if (frame.type === "cancel") this.#cancel(frame);
    else if (frame.type === "shutdown") this.#shutDown();
    else this.#fail(new BackplaneError("frame_invalid", "The host sent a frame of an unknown type."));
  }

  #greet(frame: JsonObject): void {
    const problem = checkHostHello(frame);
    if (frame.protocol !== VAI_PROTOCOL) {
      this.#fail(
        new BackplaneError(
          "protocol_version_mismatch",
          `The host does not use the protocol ${VAI_PROTOCOL}.`,
        ),
      );
    } else if (problem !== undefined) {
      this.#fail(new BackplaneError("handshake_failed", `The host's hello is not valid: ${problem}.`));
    } else {
      this.#greeted = true;
      this.#send({ protocol: VAI_PROTOCOL, type: "hello", role: "plugin", plugin: this.#options.identity });
    }
  }

  #run(frame: JsonObject): void {
    const id = frame.id;
    const problem = checkVaiRequest(frame);
    if (!isNonEmpty(id) || this.#calls.has(id)) {
      this.#fail(new BackplaneError("frame_invalid", "The host sent a request without a new id."));
    } else if (problem !== undefined) {
      const error = { code: "protocol.invalid_frame", message: problem };
      this.#send({ protocol: VAI_PROTOCOL, type: "response", id, ok: false, error });
    } else {
      const { op, body } = frame as unknown as VaiRequest;
      this.#start(new RunningCall(id, op, body, this.#emit));
    }
  }

  #start(call: RunningCall): void {
    let body: object;
    try {
      const reply = this.#options.handle(call);
      if (reply instanceof Promise) {
        this.#calls.set(call.id, call);
        void this.#answerLater(call, reply);
        return;
      }
      body = replyBody(reply);
    } catch (error) {
      body = toFailureBody(error, call.cancelled);
    }
    this.#answer(call, body);
  }

  async #answerLater(call: RunningCall, reply: Promise<VaiReply>): Promise<void> {
    let body: object;
    try {
      body = replyBody(await reply);
    } catch (error) {
      body = toFailureBody(error, call.cancelled);
    }
    this.#calls.delete(call.id);
    this.#answer(call, body);
  }

  #answer(call: RunningCall, body: object): void {
    const { id } = call;
    call.answered = true;
    try {
      this.#send({ protocol: VAI_PROTOCOL, type: "response", id, ok: true, body });
    } catch (error) {
      // The reply is too large or cannot be serialized: only this call fails, not the process.
      this.#send({
        protocol: VAI_PROTOCOL,
        type: "response",
        id,
        ok: true,
        body: toFailureBody(error, false),
      });
    }
  }

  #cancel(frame: JsonObject): void {
    if (typeof frame.request_id !== "string") return;
    this.#calls.get(frame.request_id)?.abort(typeof frame.reason === "string" ? frame.reason : "cancelled");
  }

  #shutDown(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const call of this.#calls.values()) call.abort("shutdown");
    this.#connection?.flush();
    this.#options.onShutdown();
  }

  #fail(error: Error): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#connection?.stop();
    for (const call of this.#calls.values()) call.abort("closed");
    this.#options.onFailure(error);
  }

  #send(frame: object): void {
    this.#connection?.send(frame);
    // The process may exit as soon as its last call is answered.
    if (this.#closed) this.#connection?.flush();
  }
}

/** The AbortSignal is created on first access, because most calls never use it (benchmark wire.warm-call). */
class RunningCall implements VaiCall {
  readonly id: string;
  readonly op: ExportOp;
  readonly body: VaiRequest["body"];
  answered = false;
  readonly #emit: (call: RunningCall, event: PluginEvent) => void;
  #controller: AbortController | undefined;
  #abort_reason: string | undefined;

  constructor(
    id: string,
    op: ExportOp,
    body: VaiRequest["body"],
    emit: (call: RunningCall, event: PluginEvent) => void,
  ) {
    this.id = id;
    this.op = op;
    this.body = body;
    this.#emit = emit;
  }

  emit(event: PluginEvent): void {
    this.#emit(this, event);
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#abort_reason !== undefined) this.#controller.abort(this.#abort_reason);
    }
    return this.#controller.signal;
  }

  get cancelled(): boolean {
    return this.#abort_reason !== undefined;
  }

  abort(reason: string): void {
    this.#abort_reason ??= reason;
    this.#controller?.abort(reason);
  }
}

function replyBody({ status, result }: VaiReply): object {
  return result === undefined ? { status } : { status, result };
}

function toFailureBody(error: unknown, cancelled: boolean): object {
  const message = error instanceof Error ? error.message : String(error);
  return {
    status: cancelled ? "cancelled" : "failed",
    result: { content: [{ type: "text", text: message }], is_error: true, retryable: false },
    error: { code: codeOf(error) ?? "plugin_failed", message },
  };
}
