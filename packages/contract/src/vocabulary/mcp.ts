/** Constants of JSON-RPC 2.0 and of the Model Context Protocol, for both sides of the gateway. */

/** Error codes of JSON-RPC. */
export const RPC_ERRORS = {
  parse_error: -32700,
  invalid_request: -32600,
  method_not_found: -32601,
  invalid_params: -32602,
  internal_error: -32603,
} as const;

export const MCP_ERRORS = {
  ...RPC_ERRORS,
  /** Not a code of MCP: the gateway refuses the request. */
  refused: -32000,
  session_not_found: -32001,
  /** Used in revisions before 2026-07-28. */
  resource_not_found: -32002,
  header_mismatch: -32020,
  missing_capability: -32021,
  unsupported_version: -32022,
  /** A person must visit a page first. */
  url_elicitation_required: -32042,
  /** A person or host declined a request from the server. */
  rejected: -1,
} as const;

/** The revision without sessions: each request states its client and revision. */
export const MCP_STATELESS = "2026-07-28";
/** Revisions that are negotiated with `initialize`, the newest first. */
export const MCP_NEGOTIATED = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] as const;

/** Keys of `_meta`. */
export const MCP_META = {
  version: "io.modelcontextprotocol/protocolVersion",
  client_info: "io.modelcontextprotocol/clientInfo",
  client_capabilities: "io.modelcontextprotocol/clientCapabilities",
  log_level: "io.modelcontextprotocol/logLevel",
  server_info: "io.modelcontextprotocol/serverInfo",
  subscription: "io.modelcontextprotocol/subscriptionId",
} as const;
