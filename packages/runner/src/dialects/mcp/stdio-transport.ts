/**
 * MCP over the pipes of a process: one JSON-RPC message per line. A line that is not a message is counted and
 * skipped, because many servers print a banner. Limits stop a server that floods its output or never ends a line.
 */
import { BackplaneError, isObject, type Json, type JsonObject } from "@backplane/contract";
import { type Transport, WireConnection } from "@backplane/wire";
import type { RunnerLimits } from "../../ports/settings.ts";
import type { McpTransport, TransportEvents } from "./transport.ts";

const STRAY_CHARS = 400;

export class StdioTransport implements McpTransport {
  readonly cancels_by_drop = false;
  readonly shares_stream = true;
  readonly #connection: WireConnection<Json>;
  readonly #max_queued_bytes: number;
  #stray = "";

  constructor(transport: Transport, limits: RunnerLimits, events: TransportEvents) {
    this.#max_queued_bytes = limits.queued_bytes;
    this.#connection = new WireConnection<Json>({
      transport,
      framing: "ndjson",
      limits: { ...limits, frame_bytes: limits.message_bytes },
      hold_above_bytes: limits.queued_bytes,
      onFrame: (message) => {
        if (isObject(message)) events.receive(message, null);
        else if (Array.isArray(message)) this.#receiveBatch(message, events);
        else events.reportViolation("message_invalid");
      },
      onBadBody: (error) => {
        const text = error.details?.stray_output;
        if (typeof text === "string" && text !== "") {
          if (this.#stray === "") this.#stray = text.slice(0, STRAY_CHARS);
          events.reportStrayOutput?.(text);
        }
        events.reportViolation("not_json");
        const { rpc_id } = error.details ?? {};
        if (typeof rpc_id === "number") {
          const message = `The MCP server sent an invalid response: ${error.message}`;
          events.reportLost(rpc_id, new BackplaneError("malformed_response", message));
        }
      },
      onFailure: (error) => events.reportFailure(error),
      onClose: (cause) =>
        events.reportFailure(
          new BackplaneError("crashed", "The MCP server closed its output.", cause === null ? {} : { cause }),
        ),
    });
  }

  send(message: JsonObject): void {
    if (this.#connection.queuedBytes > this.#max_queued_bytes) {
      throw new BackplaneError("backpressure", undefined, { details: { limit: this.#max_queued_bytes } });
    }
    this.#connection.send(message);
  }

  drop(): void {}

  setAgreement(): void {}

  strayText(): string {
    return this.#stray;
  }

  /** A stdio server exits when its stdin ends. */
  close(): void {
    this.#connection.closeWriting();
  }

  /** Revision 2025-03-26 allowed batches. */
  #receiveBatch(messages: Json[], events: TransportEvents): void {
    for (const message of messages) {
      if (isObject(message)) events.receive(message, null);
      else events.reportViolation("message_invalid");
    }
  }
}
