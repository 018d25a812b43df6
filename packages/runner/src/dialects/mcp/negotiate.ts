/**
 * How a conversation begins: `server/discover` first, as the stateless revision has it; a server that does not know it
 * is greeted with `initialize`. One that died or kept silent at the first question is spared it at its next start.
 */
import { BackplaneError, isObject, type JsonObject } from "@backplane/contract";
import {
  type Agreement,
  ASKABLE,
  envelope,
  NEGOTIATED,
  RPC,
  readDiscovery,
  readInitialized,
  STATELESS,
} from "./revisions.ts";
import type { Reply, RpcFailure } from "./rpc-channel.ts";

export interface Greeting {
  client: JsonObject;
  discover_ms: number;
  initialize_ms: number;
  /** Skip the question that this server did not survive. */
  skip_discovery: boolean;
  request(method: string, params: JsonObject, timeout_ms: number): Promise<Reply>;
  /** It dies of `server/discover`, or does not answer it. */
  spare(): void;
  /** What it printed so far that is no message. */
  stray(): string;
}

/** Throws with what the server printed instead, which often says what went wrong. */
export async function negotiate(greeting: Greeting): Promise<Agreement> {
  return await agree(greeting).catch((error: BackplaneError) => {
    throw withStray(error, greeting.stray());
  });
}

async function agree(greeting: Greeting): Promise<Agreement> {
  const capabilities = { ...ASKABLE, roots: {} };
  const { client } = greeting;
  if (!greeting.skip_discovery) {
    const found = await discover(greeting, { _meta: envelope(client, capabilities) });
    if (found !== null) return found;
  }
  const params = { protocolVersion: NEGOTIATED[0], capabilities, clientInfo: client };
  const reply = await greeting.request("initialize", params, greeting.initialize_ms);
  if (reply.kind === "lost") throw reply.error;
  if (reply.kind === "late") throw silent(greeting.initialize_ms);
  if (reply.kind === "refused") throw refused(reply.error);
  const agreed = readInitialized(reply.result);
  if (agreed === null) {
    throw new BackplaneError(
      "handshake_failed",
      "The server's answer to initialize names no protocolVersion.",
    );
  }
  if (!(NEGOTIATED as readonly string[]).includes(agreed.revision)) throw unknownRevision(agreed.revision);
  return agreed;
}

/** Null: it is of an older revision. */
async function discover(greeting: Greeting, params: JsonObject, again = false): Promise<Agreement | null> {
  const reply = await greeting.request("server/discover", params, greeting.discover_ms);
  if (reply.kind === "lost") {
    // An older server may answer a method that it does not know in its own way; `initialize` shows whether it can talk.
    if (reply.error.code === "malformed_response") return null;
    if (reply.error.code === "crashed") greeting.spare();
    throw reply.error;
  }
  if (reply.kind === "late") greeting.spare();
  if (reply.kind === "refused" && !again && takesOurs(reply.error))
    return await discover(greeting, params, true);
  return reply.kind === "answered" ? readDiscovery(reply.result) : null;
}

/** It refuses the revision and names the very one that it was asked in: asked once more, it may have come to know it. */
function takesOurs({ code, data }: RpcFailure): boolean {
  const supported = code === RPC.unsupported_version && isObject(data) ? data.supported : undefined;
  return Array.isArray(supported) && supported.includes(STATELESS);
}

function withStray(error: BackplaneError, stray_output: string): BackplaneError {
  if (stray_output === "") return error;
  return new BackplaneError(error.code, error.message, {
    details: { ...error.details, stray_output },
    cause: error,
  });
}

function silent(waited_ms: number): BackplaneError {
  const message = `The MCP server did not answer initialize within ${waited_ms} ms.`;
  return new BackplaneError("handshake_failed", message, { details: { waited_ms } });
}

function refused({ code, message }: RpcFailure): BackplaneError {
  return new BackplaneError(
    "handshake_failed",
    `The MCP server refused initialize: ${message.slice(0, 500)}`,
    { details: { plugin_code: String(code) } },
  );
}

function unknownRevision(revision: string): BackplaneError {
  const known = [STATELESS, ...NEGOTIATED].join(", ");
  return new BackplaneError(
    "protocol_version_mismatch",
    `The MCP server speaks revision ${revision.slice(0, 40)}; known here are ${known}.`,
    { details: { revision: revision.slice(0, 40) } },
  );
}
