/**
 * The two kinds of MCP revisions. Up to 2025-11-25 a connection begins with `initialize` and keeps what it agreed on.
 * From 2026-07-28 on each request states its client and revision, and no state is kept.
 */
import { isObject, type Json, type JsonObject, MCP_META, MCP_STATELESS } from "@backplane/contract";

/** The result of either kind of negotiation with a server. */
export interface Agreement {
  stateless: boolean;
  revision: string;
  capabilities: JsonObject;
  server: JsonObject;
  instructions: string | null;
}

/**
 * Client capabilities that the server may use. Whether a caller can answer is known only when the server sends a
 * request.
 */
export const CLIENT_CAPABILITIES: JsonObject = { sampling: {}, elicitation: { form: {}, url: {} } };

/** The request metadata of the stateless revision. The server may use only `capabilities` for this request. */
export function envelope(client: JsonObject, capabilities: JsonObject): JsonObject {
  return {
    [MCP_META.version]: MCP_STATELESS,
    [MCP_META.client_info]: client,
    [MCP_META.client_capabilities]: capabilities,
  };
}

/** Null if the result does not answer `server/discover` or lacks the stateless revision. */
export function readDiscovery(result: Json): Agreement | null {
  if (!isObject(result) || !Array.isArray(result.supportedVersions)) return null;
  if (!result.supportedVersions.includes(MCP_STATELESS)) return null;
  const meta = isObject(result._meta) ? result._meta : {};
  const server_info = meta[MCP_META.server_info];
  return createAgreement(true, MCP_STATELESS, result, isObject(server_info) ? server_info : {});
}

/** Null if the result does not answer `initialize`. */
export function readInitialized(result: Json): Agreement | null {
  if (!isObject(result) || typeof result.protocolVersion !== "string") return null;
  return createAgreement(
    false,
    result.protocolVersion,
    result,
    isObject(result.serverInfo) ? result.serverInfo : {},
  );
}

function createAgreement(
  stateless: boolean,
  revision: string,
  result: JsonObject,
  server: JsonObject,
): Agreement {
  const { capabilities, instructions } = result;
  return {
    stateless,
    revision,
    capabilities: isObject(capabilities) ? capabilities : {},
    server,
    instructions: typeof instructions === "string" ? instructions : null,
  };
}
