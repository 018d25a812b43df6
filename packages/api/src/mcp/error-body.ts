/**
 * Errors in the form that MCP clients parse: JSON-RPC for a request that the MCP endpoints cannot accept, OAuth for the
 * endpoints that clients try without a credential. Errors about the credential keep the usual envelope.
 */
import { type JsonObject, MCP_ERRORS } from "@backplane/contract";
import type { FastifyRequest } from "fastify";
import type { ErrorResponse } from "../http/error-envelope.ts";
import { errorMessage, McpError } from "./protocol/json-rpc.ts";

/** Without metadata of an authorization server, clients try these paths and show `error_description` to their user. */
const OAUTH_PATHS: readonly string[] = ["/register", "/token"];
const NO_OAUTH: JsonObject = {
  error: "invalid_request",
  error_description:
    "This gateway has no OAuth sign-in for MCP clients. Send a key in the header `Authorization: Bearer KEY`: " +
    "`backplane client connect` enters one in the client, `backplane key create` prints one.",
};

/** Null if the error envelope of the other routes applies. */
export function mcpErrorBody(request: FastifyRequest, { code, envelope }: ErrorResponse): JsonObject | null {
  if (code === "route.not_found" && OAUTH_PATHS.includes(request.url)) return NO_OAUTH;
  if (!isMcp(request.routeOptions?.url) || !code.startsWith("request.")) return null;
  const rpc = code === "request.invalid" ? MCP_ERRORS.parse_error : MCP_ERRORS.refused;
  return errorMessage(null, new McpError(rpc, envelope.error.message, { code }));
}

function isMcp(url: string | undefined): boolean {
  return url === "/mcp" || url?.startsWith("/mcp/") === true;
}
