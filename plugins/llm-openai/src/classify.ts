/**
 * Classifies the errors of the OpenAI SDK. An error inside a stream has no status, so its code or type determines one.
 */
import { classifyFailure, type LlmFailure, withStatusOf } from "@backplane/sdk/kernel";

const STATUS_BY_ERROR_TYPE: Record<string, number> = {
  server_error: 500,
  internal_error: 500,
  rate_limit_exceeded: 429,
  rate_limit_error: 429,
  insufficient_quota: 429,
  invalid_request_error: 400,
  invalid_prompt: 400,
};

export function classifyOpenAiError(error: unknown): LlmFailure {
  const { code, type } = (error ?? {}) as { code?: unknown; type?: unknown };
  return withStatusOf(classifyFailure(error), [code, type], STATUS_BY_ERROR_TYPE);
}

/** An exhausted quota has the same status as a rate limit, but waiting does not help. */
export function isWorthRetrying({ message }: LlmFailure): boolean {
  return !message.includes("insufficient_quota");
}
