/** The JSON-RPC error for a request body that cannot be parsed. Errors about the credential keep the usual envelope. */
import { type JsonObject, MCP_ERRORS } from "@backplane/contract";
import type { FastifyRequest } from "fastify";
import type { ErrorResponse } from "../http/error-envelope.ts";
import { errorMessage, McpError } from "./protocol/json-rpc.ts";

/** Null: the error envelope of all other routes applies. */
export function mcpErrorBody(request: FastifyRequest, { code, envelope }: ErrorResponse): JsonObject | null {
  if (!isMcp(request.routeOptions?.url) || !code.startsWith("request.")) return null;
  const rpc = code === "request.invalid" ? MCP_ERRORS.parse_error : MCP_ERRORS.refused;
  return errorMessage(null, new McpError(rpc, envelope.error.message, { code }));
}

function isMcp(url: string | undefined): boolean {
  return url === "/mcp" || url?.startsWith("/mcp/") === true;
}
