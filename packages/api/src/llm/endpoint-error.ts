/** Errors of the model endpoints in the form that the clients of each protocol parse. */
import type { JsonObject } from "@backplane/contract";
import type { FastifyRequest } from "fastify";
import type { ErrorResponse } from "../http/error-envelope.ts";
import { chat } from "./chat.ts";
import { messages } from "./messages.ts";
import type { EndpointError, EndpointProtocol } from "./protocol.ts";
import { responses } from "./responses.ts";

const PROTOCOLS: Readonly<Record<string, EndpointProtocol>> = {
  "/v1/chat/completions": chat,
  "/v1/responses": responses,
  "/v1/messages": messages,
  "/v1/messages/count_tokens": messages,
};

export interface EndpointErrorResponse {
  status: number;
  body: JsonObject;
  headers: Record<string, string>;
}

/** Returns null for a route that is not a model endpoint. */
export function endpointErrorResponse(
  request: FastifyRequest,
  response: ErrorResponse,
): EndpointErrorResponse | null {
  const protocol = protocolOf(request);
  if (protocol === null) return null;
  const error = toEndpointError(response);
  return {
    status: error.status,
    body: protocol.errorBody(error),
    headers: {
      "request-id": request.id,
      // Not every vendor's format has a field for our code.
      "backplane-error-code": error.code,
      // Both vendors' clients retry a 429 automatically; an exhausted budget needs an operator.
      ...(error.code === "llm.budget_exceeded" ? { "x-should-retry": "false" } : {}),
    },
  };
}

export function toEndpointError({ status, code, envelope }: ErrorResponse): EndpointError {
  const { message, details = {} } = envelope.error;
  const fix = typeof details.fix === "string" && !WITHOUT_FIX.has(code) ? ` ${details.fix}` : "";
  return {
    status: code === "llm.failed" ? upstreamStatus(details) : status,
    code,
    message: `${message}${fix}`,
  };
}

/** Codes whose fix refers to fields of our own envelope, or cannot be applied by the client. */
const WITHOUT_FIX: ReadonlySet<string> = new Set(["llm.failed", "request.invalid"]);

/** OpenAI's and Anthropic's clients list models at the same path; only Anthropic's send `anthropic-version`. */
function protocolOf(request: FastifyRequest): EndpointProtocol | null {
  const url = request.routeOptions?.url ?? "";
  if (url === "/v1/models" || url === "/v1/models/:id")
    return request.headers["anthropic-version"] === undefined ? chat : messages;
  return PROTOCOLS[url] ?? null;
}

/** Statuses of the provider that the client gets unchanged. Others, such as 401, concern the gateway's own request. */
const PASSED_ON = new Set([400, 404, 408, 409, 413, 422, 429, 500, 503, 529]);

function upstreamStatus({ kind, status_code }: JsonObject): number {
  if (kind === "timeout") return 504;
  return typeof status_code === "number" && PASSED_ON.has(status_code) ? status_code : 502;
}
