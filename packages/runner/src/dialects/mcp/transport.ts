/**
 * What carries messages to one MCP server: a pipe to its process, or HTTP. A line knows framing and requests that get no
 * answer; what the messages mean is the session's.
 */
import type { BackplaneError, JsonObject } from "@backplane/contract";
import type { Agreement } from "./revisions.ts";

export interface LineEvents {
  /** `origin`: the request on whose own stream it came; null where the line cannot tell. */
  receive(message: JsonObject, origin: number | null): void;
  /** This request will get no answer. */
  lost(id: number, error: BackplaneError): void;
  /** The server has forgotten the session that this request belonged to; it was not carried out. */
  expired(id: number): void;
  /** The same, learned without a request. */
  forgotten(): void;
  violation(kind: string): void;
  /** Output that is not a message. */
  strayed?(text: string): void;
  /** Nothing can be said on this line any more. */
  failure(error: BackplaneError): void;
}

export interface Line {
  /** Closing a request is how the stateless revision cancels it here. */
  readonly cancels_by_drop: boolean;
  /** All replies come on one stream, so one that names no request may be anybody's. */
  readonly shares_stream: boolean;
  /** `headers`: beside the message, where the line has such. Throws a BackplaneError, such as `backpressure` or `frame_too_large`; then nothing was sent. */
  send(message: JsonObject, headers?: Record<string, string>): void;
  /** No answer is wanted to this request any more. */
  drop(id: number): void;
  /** What both sides agreed on; null before it and while it is sought anew. */
  agreed(agreement: Agreement | null): void;
  /** Values that may have changed since the last call, such as a rotated secret. */
  refresh?(secrets: Record<string, string>, config: JsonObject): void;
  /** What the other side printed that is no message, for the diagnosis of a failed start. */
  stray?(): string;
  close(): void;
}
