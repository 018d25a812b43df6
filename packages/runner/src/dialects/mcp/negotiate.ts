/**
 * Agrees on a revision with the server: `server/discover` first, as in the stateless revision, then `initialize`
 * for servers that do not support it. A server that exits or hangs on `server/discover` is started without it the next
 * time.
 */
import {
  BackplaneError,
  isObject,
  type JsonObject,
  MCP_ERRORS,
  MCP_NEGOTIATED,
  MCP_STATELESS,
} from "@backplane/contract";
import {
  type Agreement,
  CLIENT_CAPABILITIES,
  envelope,
  readDiscovery,
  readInitialized,
} from "./revisions.ts";
import type { RpcFailure, RpcReply } from "./rpc-channel.ts";

export interface NegotiationOptions {
  client: JsonObject;
  discover_ms: number;
  initialize_ms: number;
  /** Skip `server/discover`, on which this server exited or hung before. */
  skip_discovery: boolean;
  request(method: string, params: JsonObject, timeout_ms: number): Promise<RpcReply>;
  /** Called when the server exited or did not answer `server/discover`. */
  disableDiscovery(): void;
  /** Output so far that is not a message. */
  strayText(): string;
}

/** Adds the stray output of the server to the error, because it often explains the failure. */
export async function negotiate(options: NegotiationOptions): Promise<Agreement> {
  return await agreeOnRevision(options).catch((error: BackplaneError) => {
    throw withStrayOutput(error, options.strayText());
  });
}

async function agreeOnRevision(options: NegotiationOptions): Promise<Agreement> {
  const capabilities = { ...CLIENT_CAPABILITIES, roots: {} };
  const { client } = options;
  if (!options.skip_discovery) {
    const discovered = await discover(options, { _meta: envelope(client, capabilities) });
    if (discovered !== null) return discovered;
  }
  const params = { protocolVersion: MCP_NEGOTIATED[0], capabilities, clientInfo: client };
  const reply = await options.request("initialize", params, options.initialize_ms);
  if (reply.kind === "lost") throw reply.error;
  if (reply.kind === "late") throw noAnswer(options.initialize_ms);
  if (reply.kind === "refused") throw initializeRejected(reply.error);
  const agreed = readInitialized(reply.result);
  if (agreed === null) {
    throw new BackplaneError("handshake_failed", "The server's answer to initialize has no protocolVersion.");
  }
  if (!(MCP_NEGOTIATED as readonly string[]).includes(agreed.revision))
    throw unknownRevision(agreed.revision);
  return agreed;
}

/** Null for a server of an older revision. */
async function discover(
  options: NegotiationOptions,
  params: JsonObject,
  retried = false,
): Promise<Agreement | null> {
  const reply = await options.request("server/discover", params, options.discover_ms);
  if (reply.kind === "lost") {
    // An older server may answer an unknown method in its own way; `initialize` shows whether it speaks MCP.
    if (reply.error.code === "malformed_response") return null;
    if (reply.error.code === "crashed") options.disableDiscovery();
    throw reply.error;
  }
  if (reply.kind === "late") options.disableDiscovery();
  if (reply.kind === "refused" && !retried && listsOurRevision(reply.error))
    return await discover(options, params, true);
  return reply.kind === "answered" ? readDiscovery(reply.result) : null;
}

/** The server rejects the revision of the request but lists it as supported, so a second attempt may succeed. */
function listsOurRevision({ code, data }: RpcFailure): boolean {
  const supported = code === MCP_ERRORS.unsupported_version && isObject(data) ? data.supported : undefined;
  return Array.isArray(supported) && supported.includes(MCP_STATELESS);
}

function withStrayOutput(error: BackplaneError, stray_output: string): BackplaneError {
  if (stray_output === "") return error;
  return new BackplaneError(error.code, error.message, {
    details: { ...error.details, stray_output },
    cause: error,
  });
}

function noAnswer(waited_ms: number): BackplaneError {
  const message = `The MCP server did not answer initialize within ${waited_ms} ms.`;
  return new BackplaneError("handshake_failed", message, { details: { waited_ms } });
}

function initializeRejected({ code, message }: RpcFailure): BackplaneError {
  return new BackplaneError(
    "handshake_failed",
    `The MCP server rejected initialize: ${message.slice(0, 500)}`,
    { details: { plugin_code: String(code) } },
  );
}

function unknownRevision(revision: string): BackplaneError {
  const known = [MCP_STATELESS, ...MCP_NEGOTIATED].join(", ");
  return new BackplaneError(
    "protocol_version_mismatch",
    `The MCP server uses revision ${revision.slice(0, 40)}; the gateway supports ${known}.`,
    { details: { revision: revision.slice(0, 40) } },
  );
}
