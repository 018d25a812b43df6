/** Classifies the errors of the Anthropic SDK. An error inside a stream has no status, so its type determines one. */
import { classifyFailure, type LlmFailure, withStatusOf } from "@backplane/sdk/kernel";

const STATUS_BY_ERROR_TYPE: Record<string, number> = {
  invalid_request_error: 400,
  authentication_error: 401,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  timeout_error: 504,
  overloaded_error: 529,
};

export function classifyAnthropicError(error: unknown): LlmFailure {
  const { type } = (error ?? {}) as { type?: unknown };
  return withStatusOf(classifyFailure(error), [type], STATUS_BY_ERROR_TYPE);
}
