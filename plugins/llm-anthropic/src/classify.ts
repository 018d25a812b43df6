/** What the SDK's errors mean. An error inside a stream has no status, so its type stands for one. */
import { classifyFailure, type LlmFailure } from "@backplane/sdk/kernel";

const STATUS_OF: Record<string, number> = {
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

export function classify(error: unknown): LlmFailure {
  const failure = classifyFailure(error);
  if (failure.kind !== "other" || typeof error !== "object" || error === null) return failure;
  const status_code = STATUS_OF[String((error as { type?: unknown }).type)];
  return status_code === undefined ? failure : { ...failure, kind: "status", status_code };
}
