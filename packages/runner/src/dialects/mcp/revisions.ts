/**
 * The two ways to speak MCP. Up to 2025-11-25 a connection begins with `initialize` and remembers what was agreed; from
 * 2026-07-28 on every request says by itself who asks and in which revision, and nothing is remembered.
 */
import { isObject, type Json, type JsonObject } from "@backplane/contract";

export const STATELESS = "2026-07-28";
/** What `initialize` may be answered with; the first is asked for. */
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
  /** Of a person or a host that says no to a question of the server. */
  rejected: -1,
} as const;

/** What was agreed with a server, by either way. */
export interface Agreement {
  stateless: boolean;
  revision: string;
  capabilities: JsonObject;
  server: JsonObject;
  instructions: string | null;
}

/** What a stranger can ask back of us. Who answers, if anybody, is known only when it asks. */
export const ASKABLE: JsonObject = { sampling: {}, elicitation: { form: {}, url: {} } };

/** The envelope of the stateless revision. It names only what this one request has somebody to answer for. */
export function envelope(client: JsonObject, capabilities: JsonObject): JsonObject {
  return {
    [META.version]: STATELESS,
    [META.client_info]: client,
    [META.client_capabilities]: capabilities,
  };
}

/** Null: it is none, or not of this revision. */
export function readDiscovery(result: Json): Agreement | null {
  if (!isObject(result) || !Array.isArray(result.supportedVersions)) return null;
  if (!result.supportedVersions.includes(STATELESS)) return null;
  const meta = isObject(result._meta) ? result._meta : {};
  const named = meta[META.server_info];
  return agreement(true, STATELESS, result, isObject(named) ? named : {});
}

/** Null: it is no answer to `initialize`. */
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
