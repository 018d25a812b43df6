/** A body that cannot be read at all, as JSON-RPC tells it. Everything about the credential keeps the usual envelope. */
import type { JsonObject } from "@backplane/contract";
import type { FastifyRequest } from "fastify";
import type { ErrorAnswer } from "../error-envelope.ts";
import { errorMessage, RPC, RpcError } from "./json-rpc.ts";

/** Null: answer as on every other route. */
export function mcpRefusal(request: FastifyRequest, { code, envelope }: ErrorAnswer): JsonObject | null {
  if (!isMcp(request.routeOptions?.url) || !code.startsWith("request.")) return null;
  const rpc = code === "request.invalid" ? RPC.parse : RPC.refused;
  return errorMessage(null, new RpcError(rpc, envelope.error.message, { code }));
}

function isMcp(url: string | undefined): boolean {
  return url === "/mcp" || url?.startsWith("/mcp/") === true;
}
