/**
 * Carries messages to one MCP server, over the pipes of its process or over HTTP. A transport handles framing and
 * failed requests; the session interprets the messages.
 */
import type { BackplaneError, JsonObject } from "@backplane/contract";
import type { Agreement } from "./revisions.ts";

export interface TransportEvents {
  /** `origin` is the request on whose stream the message came; null if that is unknown. */
  receive(message: JsonObject, origin: number | null): void;
  /** The request will not be answered. */
  reportLost(id: number, error: BackplaneError): void;
  /** The server lost the session of this request and did not process it. */
  reportExpired(id: number): void;
  /** The server lost the session; no request was affected. */
  reportSessionLost(): void;
  reportViolation(kind: string): void;
  /** Output that is not a message. */
  reportStrayOutput?(text: string): void;
  /** No further message can be sent on this transport. */
  reportFailure(error: BackplaneError): void;
}

export interface McpTransport {
  /** Whether closing a request cancels it in the stateless revision. */
  readonly cancels_by_drop: boolean;
  /** Whether all replies share one stream; a reply without a known id can then belong to any request. */
  readonly shares_stream: boolean;
  /**
   * `headers` are sent with the message by transports that have headers. Throws a BackplaneError such as
   * `backpressure` or `frame_too_large` when nothing was sent.
   */
  send(message: JsonObject, headers?: Record<string, string>): void;
  /** Discards a request whose answer is no longer needed. */
  drop(id: number): void;
  /** Sets the negotiated agreement; null before negotiation and during renegotiation. */
  setAgreement(agreement: Agreement | null): void;
  /** Updates values that may have changed since the last call, such as a rotated secret. */
  refresh?(secrets: Record<string, string>, config: JsonObject): void;
  /** Output that is not a message, for the diagnosis of a failed start. */
  strayText?(): string;
  close(): void;
}
