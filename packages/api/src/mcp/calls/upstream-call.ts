/**
 * A request that a tool or a bound server is handling. The tool or server may send notifications and questions to the
 * client before the result.
 */
import type { JsonObject } from "@backplane/contract";
import type { McpExchange } from "../session/exchange.ts";
import type { Questions } from "../session/questions.ts";

export interface UpstreamCall {
  /** Rejects with an McpError; any other error is unexpected. */
  readonly result: Promise<JsonObject>;
  readonly questions: Questions;
  /** True if notifications are expected before the result, so that the response has to be a stream from the start. */
  streamsFromStart(): boolean;
  /** True while there is no notification that this client would receive. */
  isQuiet(exchange: McpExchange): boolean;
  notifications(
    exchange: McpExchange,
    progress_token: string | number | undefined,
    stop: AbortSignal,
  ): AsyncIterable<JsonObject>;
  cancel(): void;
}
