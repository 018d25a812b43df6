/** What the SDK's errors mean. An error inside a stream has no status, so its type stands for one. */
import { classifyFailure, type LlmFailure } from "@backplane/sdk/kernel";

const STATUS_OF: Record<string, number> = {
  server_error: 500,
  internal_error: 500,
  rate_limit_exceeded: 429,
  rate_limit_error: 429,
  insufficient_quota: 429,
  invalid_request_error: 400,
  invalid_prompt: 400,
};

export function classify(error: unknown): LlmFailure {
  const failure = classifyFailure(error);
  if (failure.kind !== "other" || typeof error !== "object" || error === null) return failure;
  const { code, type } = error as { code?: unknown; type?: unknown };
  const status_code = STATUS_OF[String(code)] ?? STATUS_OF[String(type)];
  return status_code === undefined ? failure : { ...failure, kind: "status", status_code };
}

/** A used-up quota comes with the status of a full queue, but waiting does not help it. */
export function worthRetrying({ message }: LlmFailure): boolean {
  return !message.includes("insufficient_quota");
}
