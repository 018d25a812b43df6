/** The interface of the three protocols of the model endpoints: they parse requests and format answers and errors. */
import type { JsonObject } from "@backplane/contract";
import type { LlmEndpointPart, LlmEndpointRequest } from "@backplane/ports";

export interface AnswerContext {
  /** The id of the call's record, without its prefix. */
  id: string;
  /** Seconds since the epoch. */
  created: number;
  /** The model name that the client sent. */
  model: string;
  body: JsonObject;
}

/** An error in terms that the error formats of all vendors share. */
export interface EndpointError {
  status: number;
  /** Our own error code. */
  code: string;
  message: string;
}

/** Writes one answer as server-sent events. */
export interface EndpointStream {
  formatPart(part: LlmEndpointPart): string;
  /** The end of a stream that failed after it began. */
  formatError(error: EndpointError): string;
  readonly heartbeat: string;
}

export interface EndpointProtocol {
  /** Throws request.invalid. The body has passed the schema of the route. */
  read(body: JsonObject, headers: Record<string, string>): LlmEndpointRequest;
  stream(context: AnswerContext): EndpointStream;
  /** The answer to a request that does not stream; `parts` holds the whole answer, including its end. */
  answerBody(parts: readonly LlmEndpointPart[], context: AnswerContext): JsonObject;
  errorBody(error: EndpointError): JsonObject;
}

export function formatSseEvent(event: string | null, data: JsonObject | string): string {
  const name = event === null ? "" : `event: ${event}\n`;
  return `${name}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
}
