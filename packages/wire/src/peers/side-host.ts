/**
 * The host side of `rterm.plugin.v1`: one process per call, with a handshake and one request, each answered by exactly
 * one line. A line is accepted one turn of the event loop after it arrived, so that a second line sent with it is
 * detected. Output after the response sets `extraOutput`, which the caller checks after the process has exited.
 */
import {
  BackplaneError,
  type JsonObject,
  type SideManifest,
  type SideRequest,
  type SideResponse,
  toBackplaneError,
} from "@backplane/contract";
import type { FrameLimits } from "../codecs/limits.ts";
import type { Transport } from "../transports/transport.ts";
import { checkSideHandshake, checkSideOutcome, checkSideResponse, SIDE_PROTOCOL } from "./check-side.ts";
import { WireConnection } from "./connection.ts";

export interface SideHostOptions {
  transport: Transport;
  limits?: Partial<FrameLimits>;
  onViolation(violation: { kind: string }): void;
}

interface PendingRequest {
  /** The error code for an invalid line while the request is pending. */
  code: "handshake_failed" | "malformed_response";
  check(line: JsonObject): BackplaneError | undefined;
  resolve(line: JsonObject): void;
  reject(error: BackplaneError): void;
  line?: JsonObject;
}

export class SideHost {
  readonly #options: SideHostOptions;
  readonly #connection: WireConnection<JsonObject>;
  #pending: PendingRequest | undefined;
  #answered: "nothing" | "handshake" | "request" = "nothing";
  #failure: BackplaneError | undefined;
  #extra_output = false;

  constructor(options: SideHostOptions) {
    this.#options = options;
    this.#connection = new WireConnection<JsonObject>({
      transport: options.transport,
      framing: "ndjson",
      limits: options.limits,
      onFrame: (line) => this.#receive(line),
      onFailure: (error) => this.#onDecodeError(error),
      onClose: (error) => this.#onClose(error),
    });
  }

  /** True if the plugin printed more after the response; the call must then not be reported as a success. */
  get extraOutput(): boolean {
    return this.#extra_output;
  }

  async handshake(): Promise<SideManifest> {
    const line = await this.#request(
      { type: "handshake", protocol_version: SIDE_PROTOCOL },
      "handshake_failed",
      handshakeError,
    );
    this.#answered = "handshake";
    return line.manifest as unknown as SideManifest;
  }

  /** Closes the plugin's stdin after the response, so that a plugin that reads to the end of its input can exit. */
  async execute(request: SideRequest): Promise<SideResponse> {
    if (this.#answered !== "handshake") {
      throw (
        this.#failure ??
        new BackplaneError("handshake_failed", "A request cannot be sent before a valid handshake.")
      );
    }
    const line = await this.#request(request, "malformed_response", (answer) =>
      responseError(answer, request.request_id),
    );
    this.#answered = "request";
    this.#connection.closeWriting();
    return line as unknown as SideResponse;
  }

  #request(
    message: object,
    code: PendingRequest["code"],
    check: (line: JsonObject) => BackplaneError | undefined,
  ): Promise<JsonObject> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) return reject(this.#failure);
      if (this.#pending !== undefined) {
        return reject(
          new BackplaneError("internal", "The plugin has not responded to the previous request yet."),
        );
      }
      try {
        this.#connection.send(message);
      } catch (error) {
        return reject(toBackplaneError(error));
      }
      this.#pending = { code, check, resolve, reject };
    });
  }

  #receive(line: JsonObject): void {
    const pending = this.#pending;
    if (pending === undefined) this.#receiveUnexpectedLine();
    else if (pending.line !== undefined) {
      this.#fail(new BackplaneError(pending.code, "The plugin printed more than one line as its response."));
    } else {
      const problem = pending.check(line);
      if (problem !== undefined) {
        this.#fail(problem);
        return;
      }
      pending.line = line;
      setImmediate(() => this.#accept(pending, line));
    }
  }

  #accept(pending: PendingRequest, line: JsonObject): void {
    if (this.#pending !== pending) return;
    this.#pending = undefined;
    pending.resolve(line);
  }

  #receiveUnexpectedLine(): void {
    if (this.#answered === "request") this.#reportExtraOutput();
    else {
      // Either nothing has run yet, or the call has already failed and #fail keeps its first error.
      this.#fail(
        new BackplaneError("handshake_failed", "The plugin printed an unexpected line before the request."),
      );
    }
  }

  #reportExtraOutput(): void {
    if (this.#extra_output) return;
    this.#extra_output = true;
    this.#options.onViolation({ kind: "extra_output" });
  }

  #onDecodeError(error: BackplaneError): void {
    const pending = this.#pending;
    if (pending === undefined) {
      if (this.#answered === "request") this.#reportExtraOutput();
      this.#failure ??= new BackplaneError(
        "handshake_failed",
        describeDecodeError(error),
        toErrorOptions(error),
      );
      return;
    }
    this.#fail(new BackplaneError(pending.code, describeDecodeError(error), toErrorOptions(error)));
  }

  #onClose(cause: Error | null): void {
    const pending = this.#pending;
    // A complete line is accepted even if the process exited right after it.
    if (pending?.line !== undefined) this.#accept(pending, pending.line);
    this.#fail(
      new BackplaneError(
        "crashed",
        "The plugin closed its output before it responded.",
        cause === null ? {} : { cause },
      ),
    );
  }

  #fail(error: BackplaneError): void {
    this.#failure ??= error;
    const pending = this.#pending;
    this.#pending = undefined;
    pending?.reject(error);
  }
}

function handshakeError(line: JsonObject): BackplaneError | undefined {
  const problem = checkSideHandshake(line);
  if (problem !== undefined) {
    return new BackplaneError("handshake_failed", `The plugin's handshake is not valid: ${problem}.`);
  }
  const protocol = (line.manifest as unknown as SideManifest).protocol_version;
  if (protocol === SIDE_PROTOCOL) return undefined;
  return new BackplaneError(
    "protocol_version_mismatch",
    `The plugin uses protocol ${JSON.stringify(protocol.slice(0, 64))}, but this host uses ${SIDE_PROTOCOL}.`,
    { details: { expected: SIDE_PROTOCOL, got: protocol.slice(0, 64) } },
  );
}

function responseError(line: JsonObject, request_id: string): BackplaneError | undefined {
  const problem = checkSideResponse(line) ?? checkSideOutcome(line, request_id);
  if (problem === undefined) return undefined;
  return new BackplaneError("malformed_response", `The plugin's response is not valid: ${problem}.`);
}

function describeDecodeError(error: BackplaneError): string {
  const stray = error.details?.stray_output;
  return typeof stray === "string" && stray !== ""
    ? `The plugin printed a line that is not a response: ${JSON.stringify(stray)}.`
    : `The plugin's output cannot be read: ${error.message}`;
}

function toErrorOptions(error: BackplaneError): { details?: Record<string, unknown>; cause: unknown } {
  return error.details === undefined ? { cause: error } : { details: error.details, cause: error };
}
