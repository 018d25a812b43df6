/** Errors in OpenAI's form, for chat completions and responses. */
import type { JsonObject } from "@backplane/contract";
import type { EndpointError } from "./protocol.ts";

export function openAiError(error: EndpointError): JsonObject {
  return {
    error: {
      message: error.message,
      type: typeOf(error),
      param: error.code === "llm.model_not_found" ? "model" : null,
      code: openAiCode(error),
    },
  };
}

function typeOf({ status, code }: EndpointError): string {
  if (code === "llm.budget_exceeded") return "insufficient_quota";
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

/** The codes that OpenAI's clients recognize; all others are ours. */
export function openAiCode({ status, code }: EndpointError): string {
  if (code === "llm.model_not_found") return "model_not_found";
  if (code === "llm.budget_exceeded") return "insufficient_quota";
  if (code === "auth.invalid" || code === "auth.missing") return "invalid_api_key";
  if (code === "llm.failed" && status === 429) return "rate_limit_exceeded";
  return code;
}
