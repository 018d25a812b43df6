/**
 * The two kinds of MCP revisions. Up to 2025-11-25 a connection begins with `initialize` and keeps what was agreed.
 * From 2026-07-28 on each request names its client and revision, and no state is kept.
 */
import { isObject, type Json, type JsonObject } from "@backplane/contract";

export const STATELESS = "2026-07-28";
/** Accepted answers to `initialize`. The first is requested. */
export const NEGOTIATED = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] as const;

export const META = {
  version: "io.modelcontextprotocol/protocolVersion",
  client_info: "io.modelcontextprotocol/clientInfo",
  client_capabilities: "io.modelcontextprotocol/clientCapabilities",
  server_info: "io.modelcontextprotocol/serverInfo",
  subscription: "io.modelcontextprotocol/subscriptionId",
} as const;

export const RPC = {
  method_not_found: -32601,
  invalid_params: -32602,
  internal: -32603,
  unsupported_version: -32022,
  /** A person or host declined a request of the server. */
  rejected: -1,
} as const;

/** The result of either kind of negotiation with a server. */
export interface Agreement {
  stateless: boolean;
  revision: string;
  capabilities: JsonObject;
  server: JsonObject;
  instructions: string | null;
}

/** Client capabilities that the server may use. Whether a caller can answer is only known when the server asks. */
export const CLIENT_CAPABILITIES: JsonObject = { sampling: {}, elicitation: { form: {}, url: {} } };

/** The request metadata of the stateless revision. It names only capabilities that the caller of this request has. */
export function envelope(client: JsonObject, capabilities: JsonObject): JsonObject {
  return {
    [META.version]: STATELESS,
    [META.client_info]: client,
    [META.client_capabilities]: capabilities,
  };
}

/** Null if the result is not a discovery or lacks the stateless revision. */
export function readDiscovery(result: Json): Agreement | null {
  if (!isObject(result) || !Array.isArray(result.supportedVersions)) return null;
  if (!result.supportedVersions.includes(STATELESS)) return null;
  const meta = isObject(result._meta) ? result._meta : {};
  const named = meta[META.server_info];
  return agreement(true, STATELESS, result, isObject(named) ? named : {});
}

/** Null if the result does not answer `initialize`. */
export function readInitialized(result: Json): Agreement | null {
  if (!isObject(result) || typeof result.protocolVersion !== "string") return null;
  return agreement(
    false,
    result.protocolVersion,
    result,
    isObject(result.serverInfo) ? result.serverInfo : {},
  );
}

function agreement(stateless: boolean, revision: string, result: JsonObject, server: JsonObject): Agreement {
  const { capabilities, instructions } = result;
  return {
    stateless,
    revision,
    capabilities: isObject(capabilities) ? capabilities : {},
    server,
    instructions: typeof instructions === "string" ? instructions : null,
  };
}
